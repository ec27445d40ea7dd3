"""What a process that Spark runs tasks in does for itself.

Spark's worker collects garbage after every task. That looks at every object of every module, compiled code's included:
much longer than a small task takes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

_settled: set[str] = set()
"""The kinds of task that have run here: each brings modules that the others do not need."""


def settled(results: Iterator[T], kind: str) -> Iterator[T]:
    """Pass a task's results on. After the first task of a kind, take what is loaded out of the garbage collector's sight."""
    yield from results
    if kind not in _settled:
        _settled.add(kind)
        gc.freeze()
