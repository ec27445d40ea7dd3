"""The cause of an error in one sentence, with the place in the user's code.

Spark hands errors from process to process as text. A task's error is the text of a traceback in an error of the driver, and a
micro-batch's error the text of a traceback in one of Java.

An error of Java is made short before foreachBatch raises it: Spark looks for an interruption in the text of the error, with a
regular expression that recurses for each character behind "py4j.protocol.Py4JJavaError: An error occurred while calling"
(StreamExecution.PROXY_ERROR). The stack traces of Java are long enough to overflow the stack of the query's thread, and the
query would neither run nor end.
"""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.base import QueryContextType

OWN = re.compile(r"\boncelog\.[\w.]+\.(\w+): ([^\n]+)")
"""An error of ours in the text of one of Spark's."""
TRACEBACK = "Traceback (most recent call last):\n"
FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
RAISED = re.compile(r"(?:\w+\.)*(?P<kind>\w+)(?:: (?P<message>.*))?")
STATE = re.compile(r"[;.]? SQLSTATE: \w+;?$")
"""The end of the messages of Spark's errors."""

INSTALLED = re.compile(r"(^|/)(lib/python3[.\d]*|site-packages|dist-packages|pyspark\.zip|py4j-[^/]*\.zip)/")
"""The directories of Python's own modules and of those that pip installed, here or on an executor."""
LIBRARIES = (str(Path(__file__).parents[1]), sysconfig.get_paths()["stdlib"])


@dataclass(frozen=True, slots=True)
class Cause:
    """`kind` is the name of the error's class; `place` the last line of the user's that led to it."""

    kind: str
    message: str
    place: str | None = None

    def __str__(self) -> str:
        said = f"{self.kind}: {self.message}" if self.message else self.kind
        return said if self.place is None else f"{said} ({self.place})"


def cause_of(error: BaseException) -> Cause:
    """Find the cause to print first."""
    try:
        return _cause_of(error)
    except Py4JError:
        # Java has ended, which has the message.
        return Cause(type(error).__name__, "")


def _cause_of(error: BaseException) -> Cause:
    kind = type(error).__name__
    if type(error).__module__.startswith("oncelog."):
        return Cause(kind, str(error))
    if isinstance(error, PySparkException):
        return _of_text(str(error)) or Cause(kind, _first_line(error), _place_in_query(error) or _place_in_stack(error))
    if isinstance(error, SyntaxError) and error.filename is not None:
        return Cause(kind, error.msg, _place(error.filename, error.lineno or 1))
    return _of_text(str(error)) or Cause(kind, _first_line(error), _place_in_stack(error))


def reasons_of(error: BaseException) -> list[str]:
    """A line for each error that this one was raised from, the nearest first."""
    return [f"because of {cause_of(one)}" for one in _chain(error)][1:]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _of_text(text: str) -> Cause | None:
    """Read the error of another process in a text: one of ours, or else the last traceback."""
    own = OWN.findall(text)
    if own:
        return Cause(*own[-1])
    if TRACEBACK not in text:
        return None
    lines = text.rpartition(TRACEBACK)[2].splitlines()
    raised = next((line for line in lines if line and not line.startswith(" ")), None)
    matched = None if raised is None else RAISED.match(raised)
    if matched is None:
        return None
    frames = [(found["file"], int(found["line"]), found["function"]) for found in map(FRAME.search, lines) if found]
    return Cause(matched["kind"], matched["message"] or "", _last_of_users(frames))


def _first_line(error: BaseException) -> str:
    return STATE.sub("", str(error).strip().partition("\n")[0])


def _place_in_query(error: PySparkException) -> str | None:
    """The line that made the column or the DataFrame of which Spark says what is wrong."""
    for context in error.getQueryContext():
        if context.contextType() is QueryContextType.DataFrame:
            file, _, line = context.callSite().rpartition(":")
            if line.isdecimal() and _is_users(file):
                return _place(file, int(line))
    return None


def _place_in_stack(error: BaseException) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    return _last_of_users((one.filename, one.lineno or 1, one.name) for one in frames)


def _last_of_users(frames: Iterable[tuple[str, int, str]]) -> str | None:
    last = None
    for file, line, function in frames:
        if _is_users(file):
            last = _place(file, line, function)
    return last


def _is_users(file: str) -> bool:
    return not file.startswith(("<", *LIBRARIES)) and INSTALLED.search(file) is None


def _place(file: str, line: int, function: str = "<module>") -> str:
    here = os.path.relpath(file) if os.path.isabs(file) else file
    where = f"{file if here.startswith('..') else here}:{line}"
    return where if function.startswith("<") else f"{where}, in {function}"


PROXY_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""Exceptions from which Spark concludes that the query was stopped."""
TEXT_MAX = 500


class JavaError(Exception):
    """Spark's Java side failed during a micro-batch; the log of the driver has its stack trace."""


class WriteFailed(Exception):
    """The cause of a write's end, in a sentence. It is printed before the error, which has all the frames of Py4J."""


def raise_for_spark(error: Exception) -> NoReturn:
    """Raise an error of a micro-batch without stack traces of Java, and its cause before its own frames.

    Py4J prints the error that it was raised from first.
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
