"""A Spark session for exactly-once pipelines."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from oncelog.spark import private
from oncelog.spark.plan import is_local
from oncelog.spark.query import refuse_connect, refuse_remote
from oncelog.spark.session.java import Java, cache_directory, find_java, use_java
from oncelog.spark.session.python_worker import CORES_VARIABLE
from oncelog.spark.session.spark_home import class_archive, start_from, use_installed_pyspark

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Record batches are built from Arrow batches: fewer and larger ones are cheaper to hand to Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # What Spark does not show of options in plans and logs: Spark's own default, and those of Kafka's that hold a key.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|sasl[.]jaas|ssl[.]key|keystore[.]key|[.]pem$",
}

LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    # On other machines a Python without oncelog has to start before it can say so.
    "spark.python.daemon.module": "oncelog.spark.session.daemon",
}

THREADS_VARIABLE = "OMP_NUM_THREADS"

DIRECTORY_BYTES_MAX = 36
"""The longest name of the directory for temporary files below which a socket's name is short enough: 103 bytes at most, on the
strictest system, of which 24 are for our directory and 42 for Spark's socket."""


def build_session(
    *,
    app_name: str = "oncelog",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    java: Java | None = None,
) -> SparkSession:
    """Start a session, or return the one that runs, with the Java that `find_java` finds unless one is given.

    `master` and `settings` are Spark's own; without a master Spark decides. Raises JavaNotFoundError, or
    SparkConnectError where Spark Connect is asked for.
    """
    refuse_remote(os.environ, settings or {})
    if SparkSession.getActiveSession() is None:
        chosen = java or find_java()
        use_java(chosen)
        home = use_installed_pyspark(cache_directory(os.environ)) if is_local(master) else None
        if home is not None:
            start_from(class_archive(home, chosen))
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**own_settings(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    with started_with(planner_environment(master)):
        session = builder.getOrCreate()
    refuse_connect(session)
    return session


def planner_environment(master: str | None) -> dict[str, str]:
    """The environment of the processes that look for data sources and plan.

    At an import of NumPy a thread for each further core spins for 80 ms. Spark limits the threads of the workers of tasks
    (SPARK-42613), but not of these four processes: a session of one query took 0.4 s more of the processor.
    """
    cores = {CORES_VARIABLE: str(local_cores(master))} if master is not None and is_local(master) else {}
    return {THREADS_VARIABLE: "1", **cores}


def local_cores(master: str) -> int:
    """The cores of a master on this machine: local, local[2], local[*], local[2,4]."""
    asked = master.removeprefix("local").strip("[]").split(",")[0]
    if asked.isdecimal():
        return int(asked)
    return (os.cpu_count() or 1) if asked == "*" else 1


@contextmanager
def started_with(environment: Mapping[str, str]) -> Iterator[None]:
    """Start a JVM in this context with an environment, for its Python processes too. Variables that the user has set stay."""
    added = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def own_settings(master: str | None) -> dict[str, str]:
    """The settings of a session unless the user sets them.

    On one machine Spark's default of 200 shuffle partitions would make 200 tasks of a small micro-batch.
    """
    if master is None or not is_local(master):
        return SETTINGS
    shuffle = {"spark.sql.shuffle.partitions": str(local_cores(master))}
    return {**shuffle, **LOCAL_SETTINGS, **socket_settings(master), **SETTINGS}


def socket_settings(master: str | None) -> dict[str, str]:
    """Let the JVM and Python talk over Unix sockets where both are on this machine.

    Over TCP every task waits 40 ms for nothing: Spark sends what is to be done and then the rows, in two writes, and the
    kernel keeps the second until the first is acknowledged, which it puts off. Spark asks for no password on a Unix
    socket, so they are in a directory that nobody else may enter; on other machines there is none.
    """
    # Spark reads them when its context is made, not later.
    if private.has_context() or not is_local(master) or not hasattr(socket, "AF_UNIX"):
        return {}
    if len(os.fsencode(tempfile.gettempdir())) > DIRECTORY_BYTES_MAX:
        return {}
    directory = tempfile.mkdtemp(prefix="oncelog-spark-")
    atexit.register(_remove, Path(directory), os.getpid())
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": directory}


def _remove(directory: Path, owner: int) -> None:
    """Remove it in the process that made it, not in a fork."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
