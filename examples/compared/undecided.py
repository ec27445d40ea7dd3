"""A transaction whose program and whose server died when everything in it was written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from examples.compared.postgresql import postgresql, value
from examples.processes import committed
from oncelog.client import Client, Producer

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
        with killed_at_the_end(directory, HOUR_MS) as address:
            program = subprocess.run([sys.executable, "-m", __spec__.name, address], check=False)
            assert program.returncode == -signal.SIGKILL
        with killed_at_the_end(directory, HOUR_MS) as address, Client(address) as client:
            print("Kafka, started again:            ", state_in_kafka(client, address))
        with killed_at_the_end(directory, 100) as address, Client(address) as client:
            while client.describe_transactions(["till"])["till"].state != "CompleteAbort":
                time.sleep(0.1)
            print("Kafka, after the timeout:        ", state_in_kafka(client, address))


@contextmanager
def killed_at_the_end(directory: str, looks_for_timeouts_every_ms: int) -> Iterator[str]:
    """The address of a broker that ends by kill -9."""
    interval = f"transaction.abort.timed.out.transaction.cleanup.interval.ms={looks_for_timeouts_every_ms}"
    settings = [f"--set={interval}", "--set=num.partitions=1"]
    program = Path(sys.executable).with_name("oncelog")
    command = [str(program), "serve", "--listen", "127.0.0.1:0", "--data-dir", directory, *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            yield broker.stdout.readline().removeprefix("oncelog is ready on ").partition(",")[0]
        finally:
            broker.kill()


def state_in_kafka(client: Client, address: str) -> str:
    transaction = client.describe_transactions(["till"])["till"]
    return f"{transaction.state}, {len(committed(address, 'payments'))} committed records"


def leave_open(address: str) -> None:
    """The program that dies: it writes, and does not come to the end of its transaction."""
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
