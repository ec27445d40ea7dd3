"""The principal of a connection, as Kafka writes it: TYPE:NAME, where the type is User."""

from __future__ import annotations

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that was asked and has shown nothing."""


def user(name: str) -> str:
    return f"User:{name}"


def read_principals(text: str) -> frozenset[str]:
    """TYPE:NAME with semicolons between them, as Kafka's StandardAuthorizer reads them. Raises ValueError."""
    found = [item for part in text.split(";") if (item := part.strip())]
    for item in found:
        kind, separator, name = item.partition(":")
        if not (kind and separator and name):
            raise ValueError(f"expected a string in format principalType:principalName but got {item}")
    return frozenset(found)
