"""The Python in which Spark finds format("oncelog").

Spark looks for data sources, plans their reads and reads them with the Python in PYSPARK_DRIVER_PYTHON, in PYSPARK_PYTHON, or
else the first python3 on the PATH, as its Java was started with them. A virtual environment that is not activated is on no
PATH. So where neither variable is set, `import oncelog.spark` leads Spark to the Python that the program runs in. The executors
of a cluster are left alone: their python3 stays the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, MutableMapping
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog.spark.session.python_worker import is_sparks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started Java already."""


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
    """True if Java runs already, with an environment that cannot change any more."""
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


DRIVER_VARIABLE, WORKERS_VARIABLE = "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"
"""Spark takes the first of them that is set, also where its value is empty."""
USUAL = "python3"
LAUNCHERS = ("ipython", "jupyter")
"""Programs that PYSPARK_DRIVER_PYTHON may name to start a driver in, and that run no module as Python does."""
SOURCE = "pyspark_oncelog"
LOOK_FOR_SOURCE = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({SOURCE!r}) is None)"
LOOK_SECONDS_MAX = 20


def named_python(variable: Callable[[str], str | None]) -> str:
    """The Python that Spark asks for sources, where its Java has these variables."""
    for name in (DRIVER_VARIABLE, WORKERS_VARIABLE):
        value = variable(name)
        if value is not None:
            return value
    return USUAL


def forget_what_names_no_python(environment: MutableMapping[str, str]) -> None:
    """Drop an empty name, and that of the program in which this driver was started."""
    for name in (DRIVER_VARIABLE, WORKERS_VARIABLE):
        if environment.get(name) == "":
            del environment[name]
    if is_launcher(environment.get(DRIVER_VARIABLE, "")):
        del environment[DRIVER_VARIABLE]


def is_launcher(program: str) -> bool:
    return Path(program).name.startswith(LAUNCHERS)


def lead_path(environment: MutableMapping[str, str]) -> bool:
    """Let python3 on the PATH be this Python, if its directory has it under that name.

    That directory goes before the first that has another one, so that other programs are found where they were.
    """
    directories = environment.get("PATH", os.defpath).split(os.pathsep)
    place = next((at for at, one in enumerate(directories) if _runs(os.path.join(one, USUAL))), len(directories))
    if place < len(directories) and _is_this(os.path.join(directories[place], USUAL)):
        return True
    own = os.path.dirname(sys.executable)
    if not _is_this(os.path.join(own, USUAL)):
        return False
    environment["PATH"] = os.pathsep.join([*directories[:place], own, *directories[place:]])
    return True


def _runs(program: str) -> bool:
    return os.path.isfile(program) and os.access(program, os.X_OK)


@cache
def has_source(python: str, path: str | None) -> bool:
    """True if a Python has oncelog. Another Python than this one is started to find out."""
    program = shutil.which(python, path=path) if python else None
    if program is None:
        return False
    if _is_this(program):
        return True
    try:
        asked = subprocess.run(
            [program, "-c", LOOK_FOR_SOURCE], capture_output=True, check=False, timeout=LOOK_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def _is_this(program: str) -> bool:
    """True if a program is this Python. The directory tells environments apart: most link to one program."""
    own = sys.executable
    same_directory = os.path.realpath(os.path.dirname(program)) == os.path.realpath(os.path.dirname(own))
    return same_directory and os.path.realpath(program) == os.path.realpath(own)
