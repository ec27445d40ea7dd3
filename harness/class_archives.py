"""Java's archives of the classes that a program loads (JEP 350), each made once: the program is ready in half the time."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from harness import jars

QUIET = "-Xlog:cds=off,cds+dynamic=off"
Record = Callable[[Path, Path], None]
"""Runs the program to its clean end in a scratch directory, with the options `record_in` of an archive."""


def start_from(name: str, java: str, classpath: str, record: Record) -> tuple[str, ...]:
    """Java's options for a program to start from its archive, which is made if it is not there.

    There are none where this Java can make no archive.
    """
    archive = _archive(name, java, classpath, record)
    return (f"-XX:SharedArchiveFile={archive}", QUIET) if archive.stat().st_size else ()


def record_in(archive: Path) -> tuple[str, ...]:
    """Java's options for a program to archive, when it ends, the classes it has loaded."""
    return (f"-XX:ArchiveClassesAtExit={archive}", QUIET)


def _archive(name: str, java: str, classpath: str, record: Record) -> Path:
    """It is empty where this Java can make none."""
    program = Path(java).resolve()
    key = sha256(f"{program} {program.stat().st_mtime_ns} {classpath}".encode()).hexdigest()
    archive = jars.cache_directory() / f"{name}-{key[:16]}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
                unfinished = Path(scratch) / "classes.jsa"
                record(Path(scratch), unfinished)
                unfinished.touch()
                unfinished.replace(archive)
    return archive
