"""The output of commands: tables for people and JSON for scripts from the same rows, without secrets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 1_000_000


def console() -> Console:
    """Standard output, which folds and cuts lines on a terminal alone."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print the rows as a table of these columns, or whole as JSON."""
    if as_json:
        print_json(rows)
    else:
        print_table(columns, rows)


def note(text: str) -> None:
    """Print a line on standard error: standard output has nothing but the result."""
    print(f"oncelog: {text}", file=sys.stderr, flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, title: str | None = None) -> None:
    """Print rows under their columns. A column's heading is its name in words; numbers are set to the right."""
    listed = list(rows)
    # Text has no markup: a group may be called [/x].
    table = Table(box=None, pad_edge=False)
    for column in columns:
        is_number = all(isinstance(row[column], int) for row in listed) and bool(listed)
        table.add_column(column.replace("_", " ").upper(), justify="right" if is_number else "left", no_wrap=True)
    for row in listed:
        table.add_row(*(Text(printable(cell(row[column]))) for column in columns))
    screen = console()
    with screen.capture() as drawn:
        if title is not None:
            # A title inside the table would be cut to its width.
            screen.print(Text(printable(title), "bold"))
        screen.print(table)
    for line in drawn.get().splitlines():
        print(line.rstrip())


def cell(value: object) -> str:
    """One value as text: lists with commas, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(cell(item) for item in value)
    return str(value)


def printable(text: str) -> str:
    """Escape control characters: a client chooses names, and a terminal would obey them."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


HIDDEN = "[hidden]"
SECRET_PARTS = ("password", "jaas", "secret", "keystore.key", "scram")
_SCRAM_FIELD = re.compile(r"\b(salt|stored_key|server_key)=[^,\s\"]*")


def setting_value(name: str, value: str) -> str:
    """The value of a setting, unless it is a password."""
    return HIDDEN if any(part in name.lower() for part in SECRET_PARTS) else value


def without_secrets(value: object) -> object:
    """A JSON value with the fields hidden that are named like passwords, and with the SCRAM fields of its texts hidden."""
    if isinstance(value, dict):
        return {name: setting_value(name, "") or without_secrets(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return _SCRAM_FIELD.sub(rf"\1={HIDDEN}", value) if isinstance(value, str) else value
