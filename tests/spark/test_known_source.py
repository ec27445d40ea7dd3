"""format("oncelog") in sessions of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import requirements
from oncelog.spark import known_source
from oncelog.spark.session import spark_home

OWN = str(Path(sys.executable).parent)
ELSEWHERE = "/usr/bin:/bin"

JOB = """
import os, sys
if "early" in sys.argv:
    import oncelog.spark
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


def look(session):
    session.read.format("oncelog").option("kafka.bootstrap.servers", "h:1").option("subscribe", "t").load()
    here = os.path.dirname(sys.executable)
    found = session.range(1, numPartitions=1).select(udf(lambda _: os.path.dirname(sys.executable))("id")).first()[0]
    assert found == here, found


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
if "early" not in sys.argv:
    import oncelog.spark
look(spark)
look(spark.newSession())
if "restart" in sys.argv:
    spark.stop()
    look(SparkSession.builder.getOrCreate())
print("found")
"""


def environment(**more: str) -> dict[str, str]:
    """As in a shell in which no virtual environment is active."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_HOME"))}
    return {**kept, "PATH": ELSEWHERE, **more}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    ("told", "more"),
    [
        pytest.param(["early"], {}, id="imported before the session"),
        pytest.param(["restart"], {}, id="imported after it"),
        pytest.param(["early"], {"PYSPARK_PYTHON": "", "PYSPARK_DRIVER_PYTHON": ""}, id="empty"),
        pytest.param(["early"], {"PYSPARK_DRIVER_PYTHON": "jupyter"}, id="in a notebook"),
        pytest.param([], {"PYSPARK_DRIVER_PYTHON": "ipython3"}, id="in a shell"),
    ],
)
def test_source_is_found_where_another_python_is_on_the_path(told, more, tmp_path):
    _run([sys.executable], told, tmp_path, **more)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(8)
@pytest.mark.parametrize("told", [["early"], []], ids=["imported before the session", "imported after it"])
def test_source_is_found_where_a_setting_of_spark_submit_names_the_python(told, tmp_path):
    """Spark hands that setting to the driver, and does not look at it itself when it looks for sources."""
    submit = Path(spark_home.find_spec("pyspark").origin).parent / "bin" / "spark-submit"
    _run([str(submit), "--conf", f"spark.pyspark.python={sys.executable}"], told, tmp_path)


def _run(command: list[str], told: list[str], directory: Path, **more: str) -> None:
    java = Path(requirements.java()).resolve().parents[1]
    job = directory / "job.py"
    job.write_text(JOB)
    done = subprocess.run(
        [*command, str(job), *told],
        env=environment(JAVA_HOME=str(java), **more),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["found"]), done.stderr[-2000:]


def test_python_that_was_named_and_has_no_oncelog_is_said_in_a_sentence(tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", "import oncelog.spark, os; print(os.environ['PATH'])"],
        env=environment(PYSPARK_PYTHON=f"{other}"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ELSEWHERE
    assert (
        f'format("oncelog") will not be found: Spark looks for it with {other}, which has no oncelog; set '
        "PYSPARK_PYTHON before Spark starts, to a Python that has it here and on the executors, such as "
        f"{sys.executable}\n"
    ) in done.stderr


def test_process_that_spark_started_is_left_as_it_is(monkeypatch):
    monkeypatch.setenv("PATH", ELSEWHERE)
    monkeypatch.setattr(known_source, "is_sparks", lambda: True)
    known_source.make_source_known()
    assert os.environ["PATH"] == ELSEWHERE


def test_program_is_led_here_by_the_import_alone():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import oncelog.spark, shutil, sys; print(shutil.which('python3'), 'pyspark.sql' in sys.modules)",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"{OWN}/python3", "False"]


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
    assert known_source.lead_path(found)
    assert found == {"PATH": f"/tools:{OWN}:{other}/:{ELSEWHERE}"}
    assert known_source.lead_path(found)
    assert found["PATH"].split(":").count(OWN) == 1


@pytest.mark.parametrize(
    ("given", "left"),
    [({"PATH": "/nowhere"}, f"/nowhere:{OWN}"), ({"PATH": f"{OWN}:/usr/bin"}, f"{OWN}:/usr/bin")],
)
def test_path_without_another_python_leads_here(given, left):
    assert known_source.lead_path(given)
    assert given == {"PATH": left}


def test_python_that_is_not_the_python3_of_its_directory_is_not_led_to(other, monkeypatch):
    """As /usr/bin/python3.12 is where the system's python3 is an older one."""
    monkeypatch.setattr("sys.executable", str(other / "python3.12"))
    (other / "python3.12").symlink_to(os.path.realpath(OWN + "/python3"))
    found = {"PATH": ELSEWHERE}
    assert not known_source.lead_path(found)
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
    known_source.forget_what_names_no_python(found)
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
    assert known_source.named_python(variables.get) == named


def test_python_is_asked_whether_it_has_the_source(other):
    assert known_source.has_source(sys.executable, None)
    assert known_source.has_source("python3", OWN)
    assert not known_source.has_source("python3", str(other))
    assert not known_source.has_source("", OWN)
    assert not known_source.has_source("/no/python", OWN)
