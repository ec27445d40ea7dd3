"""Projects of spark-pipelines that tests run, kill and run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyspark

from harness import requirements
from oncelog.spark.session.spark_home import make_spark_home

FLOWS = Path(__file__).with_name("declared_flows.py")
SPEC = """
name: tested
storage: file://{directory}/storage
libraries:
  - glob:
      include: declared_flows.py
configuration:
  flows.plan: {directory}/plan.json
"""
SECONDS_MAX = 400


class Project:
    """A directory with a spec file and definitions. A run has a process group of its own."""

    def __init__(self, directory: Path, definitions: Path, spec: str, *conf: str) -> None:
        """`spec` is the text of the spec file; `conf` are settings of Spark for the whole process."""
        java = requirements.java()
        self.directory = directory
        directory.mkdir()
        shutil.copy(definitions, directory)
        (directory / "spark-pipeline.yml").write_text(spec)
        program = Path(sys.executable).parent / "spark-pipelines"
        self._command = [str(program)]
        for one in ("spark.ui.enabled=false", "spark.driver.memory=1g", *conf):
            self._command += ["--conf", one]
        self._environment = {
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(Path(java).resolve().parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Spark's server for the run takes any free port then, and not always 15002.
            "SPARK_TESTING": "1",
            # A flow starts several Python processes, which compile PySpark anew where it comes from its archive of source.
            "SPARK_HOME": str(make_spark_home(Path(pyspark.__file__).parent, directory / "spark-home")),
        }
        self._run: subprocess.Popen[bytes] | None = None
        self._log = directory / "said.txt"

    def start(self, *arguments: str) -> None:
        with self._log.open("wb") as log:
            self._run = subprocess.Popen(
                [*self._command, "run", *arguments],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        assert self._run is not None
        os.killpg(self._run.pid, signal.SIGKILL)
        self._run.wait(60)

    def wait_for(self, happened: threading.Event) -> None:
        """Raises AssertionError where the run ends without it."""
        assert self._run is not None
        while not happened.wait(1):
            assert self._run.poll() is None, self.said()[-3000:]

    def wait(self) -> int:
        assert self._run is not None
        return self._run.wait(SECONDS_MAX)

    def run(self, *arguments: str) -> int:
        self.start(*arguments)
        return self.wait()

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        if self._run is not None and self._run.poll() is None:
            self.kill()


class FlowsProject(Project):
    """One whose sinks and flows are described: see `declared_flows`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, FLOWS, SPEC.format(directory=directory))
        self._sinks: dict[str, dict[str, str]] = {}
        self._flows: list[dict[str, object]] = []

    def sink(self, name: str, **options: str) -> None:
        self._sinks[name] = options
        self._write()

    def flow(self, name: str, sink: str, source: dict[str, str], *columns: str) -> None:
        self._flows.append({"name": name, "sink": sink, "source": source, "columns": columns})
        self._write()

    def _write(self) -> None:
        (self.directory / "plan.json").write_text(json.dumps({"sinks": self._sinks, "flows": self._flows}))
