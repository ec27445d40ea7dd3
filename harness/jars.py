"""Apache Kafka's own jars, brought by Maven once and kept: the broker, its tools and the Java client.

The environment variables ONCELOG_KAFKA_LIBS and ONCELOG_KAFKA_WITH_ZOOKEEPER_LIBS name directories to use instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import requirements

KAFKA_VERSION = "4.3.1"
ARTIFACTS = ("kafka_2.13", "kafka-tools", "kafka-streams")
KAFKA_WITH_ZOOKEEPER_VERSION = "3.9.1"
"""3.9 is the last Kafka that can keep its metadata in ZooKeeper."""
ARTIFACTS_WITH_ZOOKEEPER = ("kafka_2.13", "kafka-tools")

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>oncelog</groupId><artifactId>kafka-libs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""

DEPENDENCY = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version></dependency>"
)


def cache_directory() -> Path:
    """Where what was downloaded once is kept, for every checkout of this user."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "oncelog"


def kafka_libs() -> Path:
    """The directory of Kafka's jars. Without it, and without Maven to fill it, the test is not run."""
    return _libs("ONCELOG_KAFKA_LIBS", KAFKA_VERSION, ARTIFACTS)


def kafka_with_zookeeper_libs() -> Path:
    """The same for the last Kafka with ZooKeeper, and ZooKeeper's own jars with it."""
    return _libs("ONCELOG_KAFKA_WITH_ZOOKEEPER_LIBS", KAFKA_WITH_ZOOKEEPER_VERSION, ARTIFACTS_WITH_ZOOKEEPER)


def classpath() -> str:
    return str(kafka_libs() / "*")


def classpath_with_zookeeper() -> str:
    return str(kafka_with_zookeeper_libs() / "*")


def _libs(variable: str, version: str, artifacts: tuple[str, ...]) -> Path:
    chosen = os.environ.get(variable)
    if chosen:
        if not list(Path(chosen).glob("kafka_*.jar")):
            requirements.not_run(f"{variable} names {chosen}, where there is no Kafka")
        return Path(chosen)
    libs = cache_directory() / f"kafka-{version}"
    download(libs, "".join(DEPENDENCY.format(artifact=one, version=version) for one in artifacts))
    return libs


def download(libs: Path, dependencies: str) -> None:
    """Fill `libs` once with what a pom's dependencies name, whole or not at all, also when several processes try."""
    if libs.exists():
        return
    maven = requirements.maven()
    libs.parent.mkdir(parents=True, exist_ok=True)
    with open(libs.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if libs.exists():
            return
        with tempfile.TemporaryDirectory(dir=libs.parent) as scratch:
            (Path(scratch) / "pom.xml").write_text(POM.format(dependencies=dependencies))
            command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
            environment = os.environ | {"JAVA_HOME": str(Path(requirements.java()).resolve().parent.parent)}
            done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                requirements.not_run(f"Maven could not bring {libs.name}: {(done.stdout + done.stderr)[-300:].strip()}")
            shutil.move(Path(scratch) / "libs", libs)
