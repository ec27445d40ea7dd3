"""Changes to the Python processes that Spark starts.

Spark's worker collects garbage after every task, over all objects of all modules: 75 ms of the processor, more than a small
task takes. Frozen objects are left out.

It reports errors to Spark after Spark has closed the connection, as Spark does when a query is stopped and after a minute without
work. Over a Unix socket that fails, and the worker prints a stack trace.
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
"""The status of a worker that is not to be used again."""

SPARKS_DAEMON = "pyspark.daemon"
"""Spark forks its planning workers from this daemon; no setting names another."""

OWN_DAEMON = "oncelog.spark.session.daemon"
CORES_VARIABLE = "ONCELOG_SESSION_CORES"
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The variable by which Spark's worker leaves out stack traces."""

_frozen: set[str] = set()
"""The kinds of task that have run here: each imports modules that the others do not need."""


def frozen_after(results: Iterator[T], kind: str) -> Iterator[T]:
    """Pass a task's results on. After the first task of a kind, hide the loaded modules from the garbage collector."""
    yield from results
    if kind not in _frozen:
        _frozen.add(kind)
        gc.freeze()


@contextmanager
def without_traceback(*kinds: type[Exception]) -> Iterator[None]:
    """Have Spark report errors of these kinds without a stack trace: their message is enough.

    A worker of Spark's ends with the first error, so no other error loses its stack trace.
    """
    try:
        yield
    except kinds:
        if is_sparks():
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def ignoring_broken_pipes(worker: Callable[..., int]) -> Callable[..., int]:
    """Let a worker end without a stack trace when Spark has closed the connection."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return ABANDONED

    return run


def ignore_broken_pipes() -> None:
    """Let this process end without a stack trace when Spark has closed the connection, if Spark's own daemon forked it."""
    if _program() == SPARKS_DAEMON:
        program = sys.modules["__main__"]
        program.__dict__["worker"] = ignoring_broken_pipes(program.worker)


def is_sparks() -> bool:
    """True in the processes in which Spark runs Python."""
    return _program().startswith("pyspark.") or _program() == OWN_DAEMON


def _program() -> str:
    """The module with which this process, or the one that forked it, was started."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else spec.name


def session_cores() -> int:
    """The tasks that a session runs at once: the cores of a local session of `build_session`, else those of the driver's machine.

    Spark tells planning processes nothing of the session, but they inherit the environment of its JVM.
    """
    told = os.environ.get(CORES_VARIABLE, "")
    return int(told) if told.isdecimal() else os.cpu_count() or 1
