"""Settings of the session that are worked out, not written down."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from oncelog.spark.session import session
from oncelog.spark.session.python_worker import CORES_VARIABLE, session_cores

DIRECTORY = "spark.python.unix.domain.socket.dir"


@pytest.fixture(autouse=True)
def no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    return "/tmp"


def test_python_is_reached_over_sockets_in_a_directory_nobody_else_may_enter(temporary: str) -> None:
    settings = session.socket_settings("local[2]")
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    directory = Path(settings[DIRECTORY])
    assert stat.S_IMODE(directory.stat().st_mode) == stat.S_IRWXU
    assert len(str(directory)) + len("/.01234567-89ab-cdef-0123-456789abcdef.sock") <= 103
    directory.rmdir()


@pytest.mark.parametrize("master", [None, "spark://there:7077", "yarn", "local-cluster[2,1,1024]"])
def test_sockets_stay_as_they_are_where_tasks_are_elsewhere(master: str | None) -> None:
    """A Unix socket reaches nobody there, and its directory need not exist."""
    assert session.socket_settings(master) == {}


@pytest.mark.parametrize("master", [None, "spark://there:7077", "yarn", "k8s://there"])
def test_what_helps_on_one_machine_is_not_set_for_a_cluster(master: str | None) -> None:
    """Its executors may have no oncelog to start Python from, nor the driver's directories; and 200 partitions may suit it."""
    settings = session.own_settings(master)
    assert settings == session.SETTINGS
    assert not any("daemon" in name or "shuffle" in name or "socket" in name for name in settings)
    assert session.own_settings("local[2]")["spark.python.daemon.module"] == "oncelog.spark.session.daemon"


def test_java_that_starts_the_python_processes_is_told_one_thread(spark: SparkSession) -> None:
    seen = spark.sparkContext._jvm.java.lang.System.getenv(session.THREADS_VARIABLE)
    assert seen == os.environ.get(session.THREADS_VARIABLE, "1")


def test_processes_that_plan_are_told_how_many_tasks_a_local_session_runs_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sparkContext._jvm.java.lang.System.getenv(CORES_VARIABLE) == "2"
    for master, cores in (("local", "1"), ("local[3]", "3"), ("local[5,2]", "5"), ("local[*]", str(os.cpu_count()))):
        environment = session.planner_environment(master)
        assert environment[CORES_VARIABLE] == cores
        monkeypatch.setenv(CORES_VARIABLE, cores)
        assert session_cores() == int(cores)
    monkeypatch.delenv(CORES_VARIABLE)
    assert session_cores() == os.cpu_count()


@pytest.mark.parametrize("master", [None, "spark://there:7077", "local-cluster[2,1,1024]"])
def test_cores_of_a_cluster_are_nothing_that_the_driver_says(master: str | None) -> None:
    assert CORES_VARIABLE not in session.planner_environment(master)


@pytest.mark.parametrize(("given", "seen"), [(None, "1"), ("3", "3")])
def test_threads_are_as_the_user_says_before_and_after(
    given: str | None, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(session.THREADS_VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(session.THREADS_VARIABLE, given)
    with session.started_with(session.planner_environment("local[2]")):
        assert os.environ[session.THREADS_VARIABLE] == seen
    assert os.environ.get(session.THREADS_VARIABLE) == given


def test_directory_too_long_for_a_socket_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = tmp_path / ("x" * session.DIRECTORY_BYTES_MAX)
    longer.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(longer))
    assert session.socket_settings("local[2]") == {}
    assert not list(longer.iterdir())


def test_context_that_runs_already_keeps_its_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert session.socket_settings("local[2]") == {}


def test_directory_of_the_sockets_is_gone_when_the_process_ends() -> None:
    program = (
        f"from oncelog.spark.session.session import socket_settings; print(socket_settings('local')['{DIRECTORY}'])"
    )
    environment = {"TMPDIR": "/tmp", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert not Path(done.stdout.strip()).exists()
