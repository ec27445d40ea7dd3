"""Checks of what a command needs before it starts: packages and Java."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from oncelog.cli.exits import CommandError, ExitStatus

if TYPE_CHECKING:
    from oncelog.spark import Java


def check_installed(command: str) -> None:
    """Raises CommandError with the command that installs what is missing."""
    missing = [module for module in ("pyspark", "pyarrow", "numba") if find_spec(module) is None]
    if missing:
        raise CommandError(f"{command} needs {' and '.join(missing)}: pip install 'oncelog[spark]'", ExitStatus.USAGE)


def check_kazoo(command: str) -> None:
    """The same for a command that asks ZooKeeper."""
    if find_spec("kazoo") is None:
        raise CommandError(f"{command} needs kazoo: pip install 'oncelog[cluster]'", ExitStatus.USAGE)


def check_spark(command: str) -> None:
    """The same for a command that starts Spark, which also refuses SPARK_REMOTE."""
    check_installed(command)
    from oncelog.spark.query import SparkConnectError, refuse_remote

    try:
        refuse_remote(os.environ, {})
    except SparkConnectError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def needed_java() -> Java:
    """Find the Java for Spark and ZooKeeper. Raises CommandError, with what to do, if none is new enough."""
    from oncelog.spark import JavaNotFoundError, find_java

    try:
        return find_java()
    except JavaNotFoundError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def announce_java() -> Java:
    """Find the Java for Spark, and print its name on standard error. Raises CommandError."""
    java = needed_java()
    print(java, file=sys.stderr)
    return java
