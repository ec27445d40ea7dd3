"""Errors of Java in what a micro-batch raises, made short.

When a micro-batch fails, Spark looks for an interruption in the text of the error, with a regular expression that
recurses for each character behind "py4j.protocol.Py4JJavaError: An error occurred while calling"
(StreamExecution.PROXY_ERROR). The stack traces of Java are long enough to overflow the stack of the query's thread, and
the query would neither run nor end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from py4j.protocol import Py4JJavaError

from oncelog.spark.causes import cause_of, reasons_of

PROXY_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""What Spark takes for the way in which a query ends that was stopped."""
TEXT_MAX = 500


class JavaError(Exception):
    """Spark's Java side failed during a micro-batch; the log of the driver has its stack trace."""


class WriteFailed(Exception):
    """The cause of a write's end, in a sentence. It is printed before the error, which has all the frames of Py4J."""


def raised_as_spark_tells_it(error: Exception) -> NoReturn:
    """Raise an error of a micro-batch without stack traces of Java, and its cause before its own frames.

    Py4J makes a text of the error and of what it was raised from, which is first.
    """
    short = without_stack_traces(error)
    for reason in reasons_of(short):
        short.add_note(reason)
    raise short from WriteFailed(str(cause_of(short)))


def without_stack_traces(error: Exception) -> Exception:
    """The error to raise instead of one that has an error of Java among its causes; any other as it is."""
    java = next((one for one in _causes(error) if isinstance(one, Py4JJavaError)), None)
    if java is None:
        return error
    interruption = _interruption(java)
    if interruption is not None:
        return JavaError(f"{PROXY_ERROR} a micro-batch: {interruption}")
    if isinstance(error, Py4JJavaError):
        return JavaError(str(java.java_exception)[:TEXT_MAX])
    error.__cause__ = None
    error.__suppress_context__ = True
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from or while handling."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def _interruption(error: Py4JJavaError) -> str | None:
    java = error.java_exception
    while java is not None:
        name: str = java.getClass().getName()
        if name in INTERRUPTIONS:
            return name
        java = java.getCause()
    return None
