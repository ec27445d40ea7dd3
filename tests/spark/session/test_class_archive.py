from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncelog.spark.session.class_archive import OPTIONS_VARIABLE, class_archive, start_from
from oncelog.spark.session.java import Java

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
