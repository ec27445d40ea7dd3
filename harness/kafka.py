"""A real Apache Kafka: one KRaft node from Maven's jars."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

from harness import jars, requirements
from harness.processes import BrokerProcess, free_port

HEAP = ("-Xmx512m", "-Xms256m")
QUIET = "-Xlog:cds=off,cds+dynamic=off"
CLUSTER_ID = "b25jZWxvZy1wZWVyLTAwMQ"
FIRST_LOOK_AT_RETENTION = "log.initial.task.delay.ms"
"""A setting that Kafka keeps to itself: by default half a minute from its start."""


class KafkaNode(BrokerProcess):
    """Broker and controller in one process, with the replication settings one node can satisfy."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory)
        self.controller_port = free_port()
        self.properties = directory / "server.properties"
        self.data_directory = directory / "data"
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings(settings).items()))
        self._java = requirements.java()
        self._classpath = jars.classpath()
        self._class_options = self._start_from_archive()
        self._format()

    def command(self) -> list[str]:
        return [
            self._java,
            *HEAP,
            *self._class_options,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            self._classpath,
            "kafka.Kafka",
            str(self.properties),
        ]

    def _start_from_archive(self) -> tuple[str, ...]:
        """Java's archive of the classes that a node loads (JEP 350), made once: it is ready in half the time."""
        archive = _class_archive(self._java)
        return (f"-XX:SharedArchiveFile={archive}", QUIET) if archive.stat().st_size else ()

    def _settings(self, more: dict[str, str]) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.dirs": str(self.data_directory),
            **more,
        }

    def _format(self) -> None:
        options = [*self._class_options, "-cp", self._classpath]
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties), "--standalone"]
        done = subprocess.run(
            [self._java, *options, *tool],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr


class _RecordedNode(KafkaNode):
    """A node that archives, when it ends, the classes it has loaded."""

    def __init__(self, directory: Path, archive: Path) -> None:
        self._archive = archive
        super().__init__(directory)

    def command(self) -> list[str]:
        java, *arguments = super().command()
        return [java, f"-XX:ArchiveClassesAtExit={self._archive}", QUIET, *arguments]

    def _start_from_archive(self) -> tuple[str, ...]:
        return ()


def _class_archive(java: str) -> Path:
    """The archive for this Java, made if it is not there. It is empty where this Java can make none."""
    key = sha256(
        f"{Path(java).resolve()} {Path(java).resolve().stat().st_mtime_ns} {jars.classpath()}".encode()
    ).hexdigest()
    archive = jars.cache_directory() / f"kafka-{jars.KAFKA_VERSION}-{key[:16]}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
                unfinished = Path(scratch) / "classes.jsa"
                node = _RecordedNode(Path(scratch) / "node", unfinished)
                node.start()
                node.stop(120)
                unfinished.touch()
                unfinished.replace(archive)
    return archive
