"""format("oncelog") in every session of a program, whichever Python Spark looks for data sources with.

A virtual environment that is not activated is on no PATH, and Spark finds another Python there. So where nobody has said
which Python it is, `import oncelog.spark` leads Spark to the one that the program runs in. The executors of a cluster are left
alone: the name python3 means there what it meant before.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any

from oncelog.spark.session.interpreter import (
    USUAL,
    WORKERS_VARIABLE,
    forget_what_names_no_python,
    has_source,
    is_launcher,
    lead_path,
    named_python,
)
from oncelog.spark.session.python_worker import is_sparks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Where spark-submit has started Java already."""


def make_source_known() -> None:
    """Have Spark find format("oncelog"), or warn of what has to be set. For a driver, at its import of oncelog.spark."""
    if is_sparks() or not sys.executable:
        return
    if _java_is_there():
        _watch_sessions()
        return
    forget_what_names_no_python(os.environ)
    named = named_python(os.environ.get)
    if named != USUAL:
        if not has_source(named, os.environ.get("PATH")):
            _warn_of(named)
    elif not lead_path(os.environ):
        _watch_sessions()


def _java_is_there() -> bool:
    """Whether Java runs already, with the environment that it has."""
    if os.environ.get(GATEWAY_VARIABLE):
        return True
    context = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    return context is not None and context.SparkContext._gateway is not None


def _watch_sessions() -> None:
    """Register the source with each session of a Java that does not look for it here, those that are there included."""
    from pyspark.sql import SparkSession

    from oncelog.spark import private

    begin = SparkSession.__init__

    @wraps(begin)
    def begin_with_source(session: SparkSession, *arguments: Any, **options: Any) -> None:
        begin(session, *arguments, **options)
        register_source(session)

    SparkSession.__init__ = begin_with_source  # type: ignore[method-assign, assignment]
    for session in private.sessions():
        register_source(session)


def register_source(session: SparkSession) -> None:
    """Make format("oncelog") known to a session whose Java would not find it, or warn of what has to be set."""
    from oncelog.spark import private
    from oncelog.spark.data_source import OncelogDataSource
    from oncelog.spark.plan import is_local

    variable = private.jvm(session).java.lang.System.getenv
    asked = named_python(variable)
    if not is_launcher(asked) and has_source(asked, variable("PATH")):
        return
    context = session.sparkContext
    if not os.environ.get(WORKERS_VARIABLE) and is_local(context.master):
        context.pythonExec = sys.executable
    if not has_source(context.pythonExec, variable("PATH")):
        _warn_of(asked)
    else:
        private.register_source(session, OncelogDataSource)


def _warn_of(python: str) -> None:
    warnings.warn(
        f'format("oncelog") will not be found: Spark looks for it with {python or "an empty PYSPARK_PYTHON"}, which has no '
        f"oncelog; set {WORKERS_VARIABLE} before Spark starts, to a Python that has it here and on the executors, such as "
        f"{sys.executable}",
        # The line that imported oncelog.spark, or made the session.
        stacklevel=4,
    )
