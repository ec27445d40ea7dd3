"""What becomes of a transaction that was open, and was as good as done, when its program and its server died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import psycopg

from examples.compared.postgresql import postgresql, value
from examples.processes import committed
from oncelog.client import Client, Producer
from oncelog.testing import broker

TIMEOUT_MS = 1000
HOUR_MS = 60 * 60 * 1000
"""By default a broker looks every ten seconds. This is long enough to see the transaction before."""


def in_postgresql() -> None:
    with postgresql() as server:
        with server.connect() as program:
            program.execute("CREATE TABLE accounts (amount int)")
            program.execute("INSERT INTO accounts VALUES (10)")
            program.execute("BEGIN")
            program.execute("UPDATE accounts SET amount = 5")
            program.execute("PREPARE TRANSACTION 'transfer'")
        server.crash()
        server.start()
        with server.connect() as other:
            print("PostgreSQL, started again:       ", state_in_postgresql(other))
            other.execute("SET lock_timeout = '100ms'")
            try:
                other.execute("UPDATE accounts SET amount = 0")
            except psycopg.errors.LockNotAvailable:
                print("PostgreSQL, somebody else writes: the row is locked")
            other.execute("COMMIT PREPARED 'transfer'")
            print("PostgreSQL, somebody commits it: ", state_in_postgresql(other))


def state_in_postgresql(connection: psycopg.Connection) -> str:
    prepared = value(connection, "SELECT count(*) FROM pg_prepared_xacts")
    return f"{prepared} prepared, amount {value(connection, 'SELECT amount FROM accounts')}"


def in_kafka() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with broker(directory, num_partitions=1, **looks_for_timeouts_every(HOUR_MS)) as log:
            program = subprocess.run([sys.executable, "-m", __spec__.name, log.bootstrap_servers], check=False)
            assert program.returncode == -signal.SIGKILL
        with broker(directory, **looks_for_timeouts_every(HOUR_MS)) as log, Client(log.bootstrap_servers) as client:
            print("Kafka, started again:            ", state_in_kafka(client, log.bootstrap_servers))
        with broker(directory, **looks_for_timeouts_every(100)) as log, Client(log.bootstrap_servers) as client:
            while client.describe_transactions(["till"])["till"].state != "CompleteAbort":
                time.sleep(0.1)
            print("Kafka, after the timeout:        ", state_in_kafka(client, log.bootstrap_servers))


def looks_for_timeouts_every(interval_ms: int) -> dict[str, Any]:
    return {"transaction_abort_timed_out_transaction_cleanup_interval_ms": interval_ms}


def state_in_kafka(client: Client, address: str) -> str:
    transaction = client.describe_transactions(["till"])["till"]
    return f"{transaction.state}, {len(committed(address, 'payments'))} committed records"


def leave_open(address: str) -> None:
    """What the program does that dies: it writes, and does not come to the end of its transaction."""
    producer = Producer(address, transactional_id="till", transaction_timeout_ms=TIMEOUT_MS)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("payments", b"5")
    producer.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        leave_open(sys.argv[1])
    in_postgresql()
    in_kafka()
