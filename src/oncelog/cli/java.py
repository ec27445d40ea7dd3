"""Which Java a command is about to start Spark with, said in one line."""

from __future__ import annotations

import sys

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.spark import Java, JavaNotFoundError, find_java


def announce_java() -> Java:
    """Find it, and print a line about it on standard error. Raises CommandError."""
    try:
        java = find_java()
    except JavaNotFoundError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    print(java, file=sys.stderr)
    return java
