"""spark-submit to a standalone cluster whose executors get oncelog with the program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

import oncelog
from harness.names import unique
from tests.spark import topics
from tests.spark.cluster import submitted
from tests.spark.cluster.standalone import HOME, IS_WHOLE, SEED, SMALL, StandaloneCluster, spark_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.drawn(16, together=True)]

COUNT = 400
MODES = ("shared-producer", "driver-pump")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms",
}
SECONDS_MAX = 900


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose Python has every package but oncelog."""
    home = tmp_path_factory.mktemp("environment") / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=60)
    packages(home).joinpath("packages.pth").write_text(sysconfig.get_path("purelib"))
    return home


def packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


class Submission:
    """A run of the submitted program, from one topic to another for each mode."""

    def __init__(self, cluster: StandaloneCluster, servers: str, directory: Path, modes: tuple[str, ...]) -> None:
        self.cluster, self.servers, self.directory = cluster, servers, directory
        self.source = topics.create(servers, unique("in"))
        self.targets = {mode: topics.create(servers, unique("out"), 2) for mode in modes}
        topics.produce(servers, self.source, topics.keyed_records(COUNT))

    def run(
        self, *arguments: str, settings: dict[str, str], python: str = sys.executable, trouble: bool = False
    ) -> subprocess.CompletedProcess[str]:
        plan = {
            "servers": self.servers,
            "source": self.source,
            "targets": self.targets,
            "directory": str(self.directory),
            "trouble": trouble,
        }
        (self.directory / "plan.json").write_text(json.dumps(plan))
        conf = [part for item in {**SMALL, **settings}.items() for part in ("--conf", "=".join(item))]
        environment = {
            **spark_environment(),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return subprocess.run(
            [
                *(str(HOME / "bin" / "spark-submit"), "--master", self.cluster.url, *conf, *arguments),
                *(str(submitted.__file__), str(self.directory / "plan.json")),
            ],
            env=environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def assert_copied_once(self) -> None:
        expected = topics.by_key({0: topics.keyed_records(COUNT)})
        for target in self.targets.values():
            assert topics.by_key(topics.read(self.servers, target)) == expected


def test_speculation_and_retries_in_executors_that_got_oncelog_in_an_archive(
    cluster, oncelog_broker, bare_python, tmp_path
):
    environment = tmp_path / "environment"
    shutil.copytree(bare_python, environment, symlinks=True)
    shutil.copytree(Path(oncelog.__file__).parent, packages(environment) / "oncelog")
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(environment, ".")
    modes = MODES if IS_WHOLE else (MODES[SEED % len(MODES)],)
    submission = Submission(cluster, oncelog_broker.bootstrap_servers, tmp_path, modes)
    done = submission.run(
        *("--archives", f"{tmp_path}/environment.tar.gz#environment"),
        settings=SPECULATION,
        python="./environment/bin/python",
        trouble=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert [json.loads(line)["sent"] for line in done.stdout.splitlines() if line.startswith("{")] == list(modes)
    submission.assert_copied_once()
    for mode in modes:
        attempts = {path.name for path in (tmp_path / mode).iterdir()}
        assert {f"task-{place}-attempt-{attempt}" for place in (0, 1) for attempt in (0, 1)} <= attempts


def test_executors_that_got_oncelog_as_a_python_file(cluster, oncelog_broker, bare_python, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "oncelog"), "zip", Path(oncelog.__file__).parents[1], "oncelog")
    submission = Submission(cluster, oncelog_broker.bootstrap_servers, tmp_path, ("auto",))
    done = submission.run("--py-files", archive, settings={}, python=str(bare_python / "bin" / "python"))
    assert done.returncode == 0, done.stderr[-4000:]
    submission.assert_copied_once()
