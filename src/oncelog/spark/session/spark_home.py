"""The SPARK_HOME of a session on one machine: PySpark's own without the archives of its source, and with an archive of classes.

A pip-installed PySpark carries an archive of its own source, and Spark puts it first on the path of every Python process that it
starts. Modules from there are compiled anew each time: for a streaming query more than half a second in each of four processes,
one after the other. Without the archives Python finds the PySpark that is installed.

A JVM loads, checks and links every class anew, and Spark has twelve thousand. With Java's archive of them (application
class-data sharing, JEP 350) a session and its first queries take about a third less processor time. One archive serves one
installed PySpark under one Java; a JVM that it does not fit starts without it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from oncelog.spark import private
from oncelog.spark.session.java import Java

PARTS = ("bin", "jars", "sbin", "conf")
"""The parts of SPARK_HOME that Spark's launcher uses."""


def use_installed_pyspark(cache: Path) -> Path | None:
    """Have Spark start from a directory in `cache`, and return it; None where SPARK_HOME is set.

    To be called before the first session.
    """
    pyspark = find_spec("pyspark")
    if "SPARK_HOME" in os.environ or pyspark is None or pyspark.origin is None:
        return None
    installed = Path(pyspark.origin).parent
    # Without the directory it starts as it would have, which is slower.
    with suppress(OSError):
        if (installed / "jars").is_dir():
            home = make_spark_home(installed, cache)
            os.environ["SPARK_HOME"] = str(home)
            return home
    return None


def make_spark_home(installed: Path, cache: Path) -> Path:
    """A directory of links to the parts of an installed PySpark, of its own for each. Raises OSError."""
    home = cache / f"spark-{sha256(bytes(installed)).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        _link(home / part, installed / part)
    return home


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    # Put in place whole: another process may start from here at the same time.
    unfinished = link.with_name(f"{link.name}.{os.getpid()}")
    unfinished.symlink_to(target)
    unfinished.replace(link)


OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""The options that Spark's launcher gives to the JVM of a session beside those in its settings."""

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java says nothing where an archive does not fit."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: compile quickly."""

END_SECONDS_MAX = 120


class ArchiveError(Exception):
    """There is no archive that a session could start from."""


def class_archive(spark_home: Path, java: Java) -> Path:
    """The path of the archive, made or not."""
    return spark_home / f"classes-{java.version}-{sha256(bytes(java.home)).hexdigest()[:16]}.jsa"


def start_from(archive: Path) -> None:
    """Have the next JVM start from the archive, if there is one."""
    # Java takes only one of the two: a JVM that makes an archive starts without one.
    if archive.is_file() and "-XX:ArchiveClassesAtExit" not in os.environ.get(OPTIONS_VARIABLE, ""):
        _add_options(f"-XX:SharedArchiveFile={archive} {QUIET}")


@contextmanager
def recorded(archive: Path, java: Java) -> Iterator[None]:
    """Have the JVM of the session that is started in here archive the classes it has loaded.

    Raises ArchiveError behind that, and leaves none, if this Java can make no archive, or would not start from it.
    """
    program = str(java.home / "bin" / "java")
    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    before = os.environ.get(OPTIONS_VARIABLE)
    _add_options(f"-XX:ArchiveClassesAtExit={unfinished} {QUIET} {QUICK}")
    try:
        yield
        class_path = _end_java()
        # An archive builds on one of Java's own classes, which a Java cut down to its modules does not bring.
        if not _starts(program, "-version"):
            raise ArchiveError(f"{program} brings no archive of its own classes, on which this one would build")
        if not _starts(program, f"-XX:SharedArchiveFile={unfinished}", "-cp", class_path, "-version"):
            raise ArchiveError(f"{program} does not start from what it archives")
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)
        if before is None:
            del os.environ[OPTIONS_VARIABLE]
        else:
            os.environ[OPTIONS_VARIABLE] = before


def _starts(program: str, *arguments: str) -> bool:
    """True if Java starts from an archive of classes."""
    return subprocess.run([program, "-Xshare:on", *arguments], capture_output=True, check=False).returncode == 0


def _add_options(options: str) -> None:
    os.environ[OPTIONS_VARIABLE] = f"{os.environ.get(OPTIONS_VARIABLE, '')} {options}".strip()


def _end_java() -> str:
    """Stop the session, and return its class path. Java ends when its input is closed, and writes the archive then."""
    java, class_path = private.end_session()
    java.stdin.close()
    try:
        java.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise ArchiveError(f"Java did not end within {END_SECONDS_MAX} s") from None
    return class_path
