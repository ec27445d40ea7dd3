"""The Python with which Spark looks for format("oncelog") with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from oncelog.spark.session import interpreter

OWN = str(Path(sys.executable).parent)
ELSEWHERE = "/usr/bin:/bin"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A directory with another python3, which has nothing installed."""
    program = tmp_path / "other" / "python3"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return program.parent


def test_python_of_the_program_goes_before_the_first_other_one(other):
    path = f"/tools:{other}/:{ELSEWHERE}"
    found = {"PATH": path}
    assert interpreter.lead_path(found)
    assert found == {"PATH": f"/tools:{OWN}:{other}/:{ELSEWHERE}"}
    assert interpreter.lead_path(found)
    assert found["PATH"].split(":").count(OWN) == 1


@pytest.mark.parametrize(
    ("given", "left"),
    [({"PATH": "/nowhere"}, f"/nowhere:{OWN}"), ({"PATH": f"{OWN}:/usr/bin"}, f"{OWN}:/usr/bin")],
)
def test_path_without_another_python_leads_here(given, left):
    assert interpreter.lead_path(given)
    assert given == {"PATH": left}


def test_python_that_is_not_the_python3_of_its_directory_is_not_led_to(other, monkeypatch):
    """As /usr/bin/python3.12 is where the system's python3 is an older one."""
    monkeypatch.setattr("sys.executable", str(other / "python3.12"))
    (other / "python3.12").symlink_to(os.path.realpath(OWN + "/python3"))
    found = {"PATH": ELSEWHERE}
    assert not interpreter.lead_path(found)
    assert found == {"PATH": ELSEWHERE}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"PYSPARK_PYTHON": "", "PYSPARK_DRIVER_PYTHON": ""}, {}),
        ({"PYSPARK_PYTHON": "/p", "PYSPARK_DRIVER_PYTHON": "/opt/bin/jupyter-lab"}, {"PYSPARK_PYTHON": "/p"}),
        ({"PYSPARK_DRIVER_PYTHON": "/p", "PYSPARK_PYTHON": "./e/python"}, None),
        ({}, {}),
    ],
)
def test_only_names_of_a_python_are_left(given, left):
    found = dict(given)
    interpreter.forget_what_names_no_python(found)
    assert found == (given if left is None else left)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "python3"),
        ({"PYSPARK_PYTHON": "/p"}, "/p"),
        ({"PYSPARK_PYTHON": "/p", "PYSPARK_DRIVER_PYTHON": "/d"}, "/d"),
        ({"PYSPARK_PYTHON": ""}, ""),
    ],
)
def test_python_is_named_as_spark_reads_it(variables, named):
    assert interpreter.named_python(variables.get) == named


def test_python_is_asked_whether_it_has_the_source(other):
    assert interpreter.has_source(sys.executable, None)
    assert interpreter.has_source("python3", OWN)
    assert not interpreter.has_source("python3", str(other))
    assert not interpreter.has_source("", OWN)
    assert not interpreter.has_source("/no/python", OWN)
