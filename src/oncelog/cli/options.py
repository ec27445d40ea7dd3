"""Options that several commands have, so that they look and mean the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"

BootstrapServer = Annotated[
    str,
    typer.Option("--bootstrap-server", metavar="HOST:PORT,…", help="Where the cluster is found."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Isolation(StrEnum):
    """Which records a reader sees."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


IsolationOption = Annotated[
    Isolation, typer.Option("--isolation-level", help="Whether records of open and aborted transactions are left out.")
]
KeyDelimiter = Annotated[
    str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="What stands between key and value.")
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
