"""How a report names operations, values and places."""

from __future__ import annotations

import json
from collections.abc import Iterable

from oncelog.testing.checker.history import Ending, JsonScalar, RecordedOperation

NAMED_MAX = 3
ENDINGS = {Ending.OK: "ended ok", Ending.FAILED: "failed", Ending.UNKNOWN: "has an unknown end"}


def shown(value: JsonScalar) -> str:
    return json.dumps(value, ensure_ascii=False)


def place(operation: RecordedOperation) -> str:
    """Where the history has the operation."""
    return f"{operation.source} line {operation.line}" if operation.source else f"line {operation.line}"


def by(operation: RecordedOperation) -> str:
    return f"{operation.process} ({place(operation)})"


def fate(operation: RecordedOperation) -> str:
    return f"the operation of {by(operation)}, which {ENDINGS[operation.ending]}"


def listed(records: Iterable[tuple[int, JsonScalar]], count: int) -> str:
    """The first few of `count` records."""
    return ", ".join(f"{shown(value)} at {offset}" for offset, value in records) + and_more(count)


def and_more(count: int) -> str:
    """What is said after the first few of `count`."""
    return f" and {count - NAMED_MAX} more" if count > NAMED_MAX else ""
