"""At least once into a table: rows are committed first, then the offsets of their records. A crash in between delivers again.

What the table makes of a record that comes again is decided by its key:

    nothing    it has none: the record is another row
    position   topic, partition and offset: a record is a row once, however often it is delivered
    event      the id that the event was given where it happened: so is an event, however often it was written to the topic
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
from contextlib import closing

from oncelog.client import Consumer

KEYS = {"nothing": "", "position": ", PRIMARY KEY (topic, partition, offset)", "event": ", PRIMARY KEY (event)"}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
parser.add_argument(
    "--topic", default="payments", help="the topic to read, to its end; keys of records are ids of events"
)
parser.add_argument("--database", default="payments.db")
parser.add_argument("--key", choices=KEYS, default="position")
parser.add_argument("--crash-after", type=int, default=-1, metavar="ROWS", help="die once so many rows are committed")
chosen = parser.parse_args()

with (
    closing(sqlite3.connect(chosen.database)) as table,
    Consumer(chosen.bootstrap_server, group_id=f"table-by-{chosen.key}", group_instance_id="1") as consumer,
):
    columns = "topic TEXT, partition INTEGER, offset INTEGER, event BLOB, value BLOB"
    table.execute(f"CREATE TABLE IF NOT EXISTS payments ({columns}{KEYS[chosen.key]})")
    consumer.subscribe([chosen.topic])
    done = 0
    while not (consumer.assignment and consumer.positions() and not any(consumer.lag().values())):
        records = consumer.poll(records_max=10)
        rows = [(one.topic, one.partition, one.offset, one.key or b"", one.value or b"") for one in records]
        with table:
            table.executemany("INSERT INTO payments VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)
        done += len(rows)
        if 0 <= chosen.crash_after <= done:
            os.kill(os.getpid(), signal.SIGKILL)
        consumer.commit()
