"""The exit statuses of every command, and the error that ends one."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path


class ExitStatus(IntEnum):
    """The exit statuses of all commands."""

    OK = 0
    DIFFERENT = 1  # the command worked, and its answer is "no": a check, a run or a comparison found something wrong
    USAGE = 2  # the command line, or a file that it names, is wrong
    UNREACHABLE = 3  # no broker answered in time
    REFUSED = 4  # the broker answered with an error
    FAILED = 5  # a pipeline or a broker stopped by itself
    UNKNOWN = 6  # a transaction's end was asked for, and no definite answer came
    INTERRUPTED = 130  # Ctrl-C


class CommandError(Exception):
    """Ends a command: one sentence for the user, and a status for scripts."""

    def __init__(self, sentence: str, status: ExitStatus) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


def read_text(path: Path) -> str:
    """Read a file that the command line names. Raises CommandError for one that is not there, is a directory or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: it is no text in UTF-8", ExitStatus.USAGE) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", ExitStatus.USAGE) from error
