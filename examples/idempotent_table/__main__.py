"""Read a topic into a table with each of the three keys, kill the reader between its two commits, and count the rows.

The topic has 40 events. Its producer was started again on the way, and has written 5 of them a second time.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from examples.processes import run_twice
from oncelog.client import Producer
from oncelog.testing import broker

EVENTS = 40
WRITTEN_AGAIN = 5
CRASH_AFTER = 20
ROW = "{:<9} {:>6} {:>8} {:>7} {:>5} {:>5} {:>10}"


def main() -> None:
    print(ROW.format("KEY", "KILLED", "RECORDS", "EVENTS", "ROWS", "LOST", "TOO OFTEN"))
    with broker(num_partitions=1) as log, tempfile.TemporaryDirectory() as directory:
        write_payments(log.bootstrap_servers)
        for key in ("nothing", "position", "event"):
            database = Path(directory) / f"{key}.db"
            arguments = ["--bootstrap-server", log.bootstrap_servers, "--database", str(database), "--key", key]
            killed = run_twice(Path(__file__).with_name("into_table.py"), *arguments, crash_after=CRASH_AFTER)
            with closing(sqlite3.connect(database)) as table:
                counts = [rows for (rows,) in table.execute("SELECT count(*) FROM payments GROUP BY event")]
            too_often = sum(rows > 1 for rows in counts)
            records = EVENTS + WRITTEN_AGAIN
            print(ROW.format(key, killed, records, EVENTS, sum(counts), EVENTS - len(counts), too_often))


def write_payments(address: str) -> None:
    for events in (range(EVENTS), range(EVENTS - WRITTEN_AGAIN, EVENTS)):
        with Producer(address) as producer:
            for number in events:
                producer.send("payments", b"%d EUR" % number, key=b"event-%d" % number)


if __name__ == "__main__":
    main()
