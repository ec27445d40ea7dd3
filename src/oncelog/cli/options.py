"""Options that several commands have, so that they look and mean the same everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from math import nan
from pathlib import Path
from typing import Annotated

import typer

from oncelog.cli.exits import CommandError, ExitStatus

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"
INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
"""What there is room for in a request."""
SECONDS_MAX = 1_000_000_000


def filled(text: str) -> str:
    """A value that is not empty. Raises typer.BadParameter: `"$NAME"` with NAME unset must not stand for anything."""
    if not text:
        raise typer.BadParameter("the value is empty: give one, or leave it out")
    return text


def filled_path(text: str | Path) -> Path:
    """The same of a path, which would be the current directory."""
    return Path(filled(str(text)))


def number_between(least: float, most: float) -> Callable[[str], float]:
    """What reads a number, which infinity and "not a number" are not. Raises typer.BadParameter."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = nan
        if not least <= number <= most:
            raise typer.BadParameter(f"{text!r} is not a number from {least:,} to {most:,}")
        return number

    return read


seconds = number_between(0, SECONDS_MAX)


def is_utf8(text: str) -> bool:
    """Whether an argument can be sent as text: Python keeps other bytes as halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def delimiter(text: str) -> bytes:
    """What stands between key and value, as bytes of a line: \\t and the like are what they are in Python.

    Raises typer.BadParameter.
    """
    try:
        # Only ASCII survives `unicode_escape`, so that everything else becomes an escape first.
        return os.fsencode(filled(text).encode("latin-1", "backslashreplace").decode("unicode_escape"))
    except UnicodeError:
        raise typer.BadParameter(f"{text!r} ends in the middle of an escape, or is no character") from None


Topics = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="The topics.")]
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        help="Where the cluster is found.",
        show_default=f"bootstrap.servers of --config, or {DEFAULT_BOOTSTRAP_SERVER}",
    ),
]
_CLIENT_PROPERTIES = "Kafka's client.properties: bootstrap.servers, security.protocol and so on."
Config = Annotated[
    Path | None,
    typer.Option("--config", "--command-config", parser=filled_path, metavar="FILE", help=_CLIENT_PROPERTIES),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", parser=filled_path, metavar="FILE", help=_CLIENT_PROPERTIES),
]
"""Where --config is a topic's setting, as in Kafka's own tools, and can still be the file."""
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Isolation(StrEnum):
    """Which records a reader sees."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


IsolationOption = Annotated[
    Isolation, typer.Option("--isolation-level", help="Whether records of open and aborted transactions are left out.")
]
KeyDelimiter = Annotated[
    bytes | None,
    typer.Option("-K", "--key-delimiter", parser=delimiter, metavar="TEXT", help="What stands between key and value."),
]


def named_values(texts: list[str], option: str) -> dict[str, str]:
    """Read NAME=VALUE pairs. Raises typer.BadParameter."""
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        values[name.strip()] = value.strip()
    return values


def settings_and_file(texts: list[str], file: Path | None) -> tuple[dict[str, str], Path | None]:
    """What --config says of a topic, NAME=VALUE, and the client.properties that it may name too.

    Raises typer.BadParameter for a second file, or for one that is not there: its name may be half a setting.
    """
    files = [Path(text) for text in texts if "=" not in text]
    settings = named_values([text for text in texts if "=" in text], "--config")
    for path in files:
        if not path.is_file():
            raise typer.BadParameter(f"{str(path)!r} is neither NAME=VALUE nor a file", param_hint="--config")
    files += [] if file is None else [file]
    if len(files) > 1:
        raise typer.BadParameter("one file has the properties of the client", param_hint="--config")
    return settings, files[0] if files else None


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless --yes was given. Raises CommandError where the answer is no, or nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nothing was changed: do it with --yes", ExitStatus.USAGE)
    if not typer.confirm(question):
        raise CommandError("nothing was changed", ExitStatus.DIFFERENT)
