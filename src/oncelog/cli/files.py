"""Reading a file that the command line names."""

from __future__ import annotations

from pathlib import Path

from oncelog.cli.exits import CommandError, ExitStatus


def read_text(path: Path) -> str:
    """Raises CommandError for a file that is not there, is a directory or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: it is no text in UTF-8", ExitStatus.USAGE) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", ExitStatus.USAGE) from error
