"""What has to be there before a command can do anything."""

from __future__ import annotations

import os
from importlib.util import find_spec

from oncelog.cli.exits import CommandError, ExitStatus


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
    """The same for a command that starts Spark, and where SPARK_REMOTE is set."""
    check_installed(command)
    from oncelog.spark.query import SparkConnectError, refuse_remote

    try:
        refuse_remote(os.environ, {})
    except SparkConnectError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
