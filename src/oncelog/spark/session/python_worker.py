"""What a Python process that works for Spark does for itself.

Spark's worker collects garbage after every task. That looks at every object of every module, compiled code's included:
much longer than a small task takes.

And it tries to tell Spark of what went wrong when Spark has hung up: as it does on a task when a query is stopped, and on
a worker that has had nothing to do for a minute. Over a Unix socket that is an error, of which it prints a stack trace.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

ABANDONED = 1
"""What a worker returns that is not to be used again."""

SPARKS_DAEMON = "pyspark.daemon"
"""The program that what looks for sources, makes one and plans a read is forked from; no setting names another."""

OWN_DAEMON = "oncelog.spark.session.daemon"
CORES_VARIABLE = "ONCELOG_SESSION_CORES"
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""What Spark's worker looks for in its environment when it tells of an error."""

_settled: set[str] = set()
"""The kinds of task that have run here: each brings modules that the others do not need."""


def settled(results: Iterator[T], kind: str) -> Iterator[T]:
    """Pass a task's results on. After the first task of a kind, take what is loaded out of the garbage collector's sight."""
    yield from results
    if kind not in _settled:
        _settled.add(kind)
        gc.freeze()


@contextmanager
def told_in_one_sentence(*kinds: type[Exception]) -> Iterator[None]:
    """Have Spark tell an error of these kinds without a stack trace: its message says what there is to say.

    A worker of Spark's ends with the first error, so nothing else is told so.
    """
    try:
        yield
    except kinds:
        if is_sparks():
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def ignoring_broken_pipes(worker: Callable[..., int]) -> Callable[..., int]:
    """Let a worker end without a stack trace when Spark has hung up."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return ABANDONED

    return run


def end_unheard() -> None:
    """Let this process end without a stack trace when Spark has hung up, if it was forked from Spark's own daemon."""
    if _program() == SPARKS_DAEMON:
        program = sys.modules["__main__"]
        program.__dict__["worker"] = ignoring_broken_pipes(program.worker)


def is_sparks() -> bool:
    """Whether this is one of the processes in which Spark runs Python."""
    return _program().startswith("pyspark.") or _program() == OWN_DAEMON


def _program() -> str:
    """The module that this process, or the one that it was forked from, was started with."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else spec.name


def session_cores() -> int:
    """The cores of the local session that `build_session` has started; for any other, those of the driver's machine."""
    told = os.environ.get(CORES_VARIABLE, "")
    return int(told) if told.isdecimal() else os.cpu_count() or 1
