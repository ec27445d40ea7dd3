"""A standalone cluster of Spark on this machine: a master and workers in processes of their own, to be killed one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyspark

from harness import requirements, waiting
from harness.processes import free_port

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
"""It chooses a part of what is run here, and which."""
IS_WHOLE = os.environ.get("ONCELOG_CLUSTER") == "whole"
"""Whether everything is run."""

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
START_SECONDS_MAX = 180
MASTER_HOST = "127.0.0.1"
READY = "I have been elected leader"
REGISTERED = "Registering worker "
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_environment() -> dict[str, str]:
    """What a process of Spark finds in its environment: this Java, this Spark, and nothing of the tests' Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    java = Path(requirements.java()).resolve().parents[1]
    return {**kept, "JAVA_HOME": str(java), "SPARK_HOME": str(HOME)}


class StandaloneCluster:
    """One master, and workers of one core each, each on a host of its own.

    Spark runs a second copy of a task on another host only, so the hosts are addresses of the loopback network.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = free_port()
        self._master = self._start("master", MASTER_HOST, MASTER, "--port", str(self.port))
        self._workers: list[subprocess.Popen[bytes]] = []
        waiting.until(lambda: READY in self._said(), START_SECONDS_MAX)

    @property
    def url(self) -> str:
        return f"spark://{MASTER_HOST}:{self.port}"

    def start_workers(self, count: int) -> None:
        """Start them side by side, and return when the master knows them all."""
        registered = self._said().count(REGISTERED)
        for _ in range(count):
            number = len(self._workers)
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / "work"), self.url)
            self._workers.append(self._start(f"worker-{number}", f"127.0.1.{number + 1}", WORKER, *arguments))
        waiting.until(lambda: self._said().count(REGISTERED) == registered + count, START_SECONDS_MAX)

    def kill_worker(self) -> None:
        """Kill one with its executors, as when a machine goes."""
        running = [worker for worker in self._workers if worker.poll() is None]
        below = psutil.Process(running[0].pid).children(recursive=True)
        running[0].kill()
        running[0].wait()
        for process in below:
            if process.is_running():
                process.kill()

    def executors(self) -> list[psutil.Process]:
        """The Java processes of the executors that run, the oldest first."""
        found: list[psutil.Process] = []
        for worker in self._workers:
            if worker.poll() is None:
                below = psutil.Process(worker.pid).children()
                found += [process for process in below if EXECUTOR in " ".join(_command(process))]
        return sorted(found, key=lambda process: process.create_time())

    def stop(self) -> None:
        for worker in [*self._workers, self._master]:
            if worker.poll() is None:
                worker.terminate()
                worker.wait(30)

    def _said(self) -> str:
        return (self.directory / "master.txt").read_text()

    def _start(self, name: str, host: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin" / "spark-class"), main, "--host", host, "--webui-port", "0", *arguments]
        daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA, "SPARK_LOCAL_IP": host}
        environment = {**spark_environment(), **daemon}
        with (self.directory / f"{name}.txt").open("wb") as output:
            return subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self.directory
            )


def _command(process: psutil.Process) -> list[str]:
    try:
        command: list[str] = process.cmdline()
    except psutil.NoSuchProcess:
        return []
    return command


SMALL = {
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""Settings of a driver that shares a small machine with its cluster."""

OWN_ONCELOG = {
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "spark.python.daemon.module": "oncelog.spark.session.daemon",
}
"""Settings with which executors find the oncelog that is tested, and the tests' functions."""
