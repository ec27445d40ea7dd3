"""Names of topics and ids: the patterns that clients send, and how a line of the log shortens a list.

Patterns have the syntax of RE2, as Kafka's have. Matching takes linear time whatever the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def regex_problem(regex: str) -> str | None:
    """The reason why this is no regular expression; None if it is one."""
    compiled = _compile(regex)
    return compiled if isinstance(compiled, str) else None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match as a whole. A text that is no regular expression matches none."""
    compiled = _compile(regex)
    if isinstance(compiled, str):
        return frozenset()
    # RE2 first counts the bytes of each character of a str, which takes three times as long as the comparison.
    return frozenset(name for name in names if compiled.fullmatch(name.encode()) is not None)


def _compile(regex: str) -> Any | str:
    # Imported here: most brokers never need it.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        (reason,) = error.args
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


NAMED_MAX = 3


def first_of(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
