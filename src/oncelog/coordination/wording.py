"""Words of the log that several coordinators use."""

from __future__ import annotations

from collections.abc import Sequence

NAMED_MAX = 3


def first_of(names: Sequence[str]) -> str:
    """Some names, and how many more there are: a line of the log is no list."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
