"""The Python with which Spark looks for data sources, plans their reads and reads them.

It is the one in PYSPARK_DRIVER_PYTHON, in PYSPARK_PYTHON, or else the first python3 on the PATH, as Spark's Java was started
with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, MutableMapping
from functools import cache
from pathlib import Path

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
    """Whether a Python has oncelog: this one, or another one that is asked."""
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
    """Whether a program is this Python. An environment is its directory, and most have links to one and the same program."""
    own = sys.executable
    same_directory = os.path.realpath(os.path.dirname(program)) == os.path.realpath(os.path.dirname(own))
    return same_directory and os.path.realpath(program) == os.path.realpath(own)
