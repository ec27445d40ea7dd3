"""What has to be installed before a command can do anything."""

from __future__ import annotations

from importlib.util import find_spec

from oncelog.cli.exits import CommandError, ExitStatus


def check_spark_is_installed(command: str) -> None:
    """Raises CommandError with the command that installs what is missing."""
    missing = [module for module in ("pyspark", "pyarrow", "numba") if find_spec(module) is None]
    if missing:
        raise CommandError(f"{command} needs {' and '.join(missing)}: pip install 'oncelog[spark]'", ExitStatus.USAGE)
