"""What a Python process that works for Spark does for itself.

Spark's worker collects garbage after every task. That looks at every object of every module, compiled code's included:
much longer than a small task takes.

And it tries to tell Spark of what went wrong when Spark has hung up: as it does on a task when a query is stopped, and on
a worker that has had nothing to do for a minute. Over a Unix socket that is an error, of which it prints a stack trace.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

ABANDONED = 1
"""What a worker returns that is not to be used again."""

SPARKS_DAEMON = "pyspark.daemon"
"""The program that what looks for sources, makes one and plans a read is forked from; no setting names another."""

_settled: set[str] = set()
"""The kinds of task that have run here: each brings modules that the others do not need."""


def settled(results: Iterator[T], kind: str) -> Iterator[T]:
    """Pass a task's results on. After the first task of a kind, take what is loaded out of the garbage collector's sight."""
    yield from results
    if kind not in _settled:
        _settled.add(kind)
        gc.freeze()


def unheard(worker: Callable[..., int]) -> Callable[..., int]:
    """Let a worker end without a stack trace when Spark has hung up."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return ABANDONED

    return run


def end_unheard() -> None:
    """Let this process end without a stack trace when Spark has hung up, if it was forked from Spark's own daemon."""
    program = sys.modules["__main__"]
    if program.__spec__ is not None and program.__spec__.name == SPARKS_DAEMON:
        program.__dict__["worker"] = unheard(program.worker)
