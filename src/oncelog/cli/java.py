"""Which Java a command is about to start."""

from __future__ import annotations

import sys

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.spark import Java, JavaNotFoundError, find_java


def needed_java() -> Java:
    """Raises CommandError, with what to do, where there is none that is new enough."""
    try:
        return find_java()
    except JavaNotFoundError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def announce_java() -> Java:
    """Find the one for Spark, and print a line about it on standard error. Raises CommandError."""
    java = needed_java()
    print(java, file=sys.stderr)
    return java
