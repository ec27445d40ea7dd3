"""The names that a topic may have: brokers refuse the others, and a client need not ask for them."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Say why Kafka would not take this topic name, in its own words, which scripts look for; or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None
