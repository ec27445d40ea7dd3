from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from oncelog.spark.session.java import Java
from oncelog.spark.session.spark_home import (
    OPTIONS_VARIABLE,
    class_archive,
    make_spark_home,
    start_from,
    use_installed_pyspark,
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    home = tmp_path / "pyspark"
    for part in ("bin", "jars", "sbin", "python/lib"):
        (home / part).mkdir(parents=True)
    (home / "python" / "lib" / "pyspark.zip").touch()
    (home / "bin" / "spark-submit").touch()
    return home


def test_spark_home_has_the_launcher_and_no_archive_of_source(installed: Path, tmp_path: Path) -> None:
    home = make_spark_home(installed, tmp_path / "cache")

    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").is_dir()
    assert not (home / "python").exists()


def test_spark_home_made_twice_is_the_same(installed: Path, tmp_path: Path) -> None:
    first = make_spark_home(installed, tmp_path / "cache")
    links = {link.name: link.lstat().st_ino for link in first.iterdir()}

    assert make_spark_home(installed, tmp_path / "cache") == first
    assert {link.name: link.lstat().st_ino for link in first.iterdir()} == links


def test_two_installations_have_a_spark_home_each(installed: Path, tmp_path: Path) -> None:
    other = installed.rename(tmp_path / "other")
    installed.mkdir()

    assert make_spark_home(installed, tmp_path / "cache") != make_spark_home(other, tmp_path / "cache")


def test_spark_home_of_the_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    use_installed_pyspark(tmp_path)

    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert list(tmp_path.iterdir()) == []


def test_cache_that_cannot_be_written_leaves_spark_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "file").touch()
    use_installed_pyspark(tmp_path / "file")

    assert "SPARK_HOME" not in os.environ


@pytest.mark.spark
def test_python_processes_of_a_session_find_no_archive_of_source(spark: Any) -> None:
    path = spark._jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath()

    assert [entry for entry in path.split(os.pathsep) if entry.endswith(".zip") and Path(entry).exists()] == []


JAVA = Java(Path("/opt/java"), 21, "JAVA_HOME")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    return class_archive(tmp_path, JAVA)


def test_session_starts_from_the_archive_that_is_there(archive, monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, "-XX:+UseSerialGC")
    archive.touch()
    start_from(archive)
    assert os.environ[OPTIONS_VARIABLE].startswith(f"-XX:+UseSerialGC -XX:SharedArchiveFile={archive} ")


def test_session_starts_without_an_archive_that_was_never_made(archive):
    start_from(archive)
    assert OPTIONS_VARIABLE not in os.environ


def test_session_that_makes_an_archive_starts_without(archive, monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, "-XX:ArchiveClassesAtExit=new.jsa")
    archive.touch()
    start_from(archive)
    assert os.environ[OPTIONS_VARIABLE] == "-XX:ArchiveClassesAtExit=new.jsa"


def test_each_java_and_each_pyspark_has_an_archive_of_its_own(tmp_path):
    others = [Java(Path("/opt/java"), 17, "JAVA_HOME"), Java(Path("/opt/other"), 21, "the PATH")]
    assert len({class_archive(tmp_path, java) for java in (JAVA, *others)} | {class_archive(tmp_path / "a", JAVA)}) == 4
