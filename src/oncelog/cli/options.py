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
"""The largest numbers that fit into the fields of a request."""
SECONDS_MAX = 1_000_000_000


def filled(text: str) -> str:
    """A value that is not empty. Raises typer.BadParameter: `"$NAME"` with NAME unset is a mistake."""
    if not text:
        raise typer.BadParameter("the value is empty: give one, or leave it out")
    return text


def filled_path(text: str | Path) -> Path:
    """The same for a path: an empty one would be the current directory."""
    return Path(filled(str(text)))


def number_between(least: float, most: float) -> Callable[[str], float]:
    """A parser for finite numbers. It raises typer.BadParameter."""

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
    """True if an argument can be sent as text: Python keeps other bytes as halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def delimiter(text: str) -> bytes:
    """The bytes between key and value in a line, with the escapes of Python, such as \\t.

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
        help="The address of one or more brokers.",
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
"""For commands whose --config is a topic's setting, as in Kafka's tools. It can still name the file."""
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Isolation(StrEnum):
    """The isolation levels of a reader."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


IsolationOption = Annotated[
    Isolation,
    typer.Option("--isolation-level", help="Leave out records of open and aborted transactions, or show them."),
]
KeyDelimiter = Annotated[
    bytes | None,
    typer.Option("-K", "--key-delimiter", parser=delimiter, metavar="TEXT", help="The text between key and value."),
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
    """Divide the values of --config into a topic's settings, NAME=VALUE, and the client.properties.

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
