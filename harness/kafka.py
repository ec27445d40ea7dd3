"""A real Apache Kafka: one KRaft node from Maven's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import class_archives, jars, requirements
from harness.processes import BrokerProcess, free_port

HEAP = ("-Xmx512m", "-Xms256m")
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
        return class_archives.start_from(
            f"kafka-{jars.KAFKA_VERSION}", self._java, self._classpath, record=_record_classes
        )

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
        return [java, *class_archives.record_in(self._archive), *arguments]

    def _start_from_archive(self) -> tuple[str, ...]:
        return ()


def _record_classes(scratch: Path, archive: Path) -> None:
    node = _RecordedNode(scratch / "node", archive)
    node.start()
    node.stop(120)
