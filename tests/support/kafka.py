"""A real Apache Kafka: one KRaft node from Maven's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import jars, requirements
from tests.support.processes import BrokerProcess, free_port

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
        self._format()

    def command(self) -> list[str]:
        return [
            self._java,
            *HEAP,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            self._classpath,
            "kafka.Kafka",
            str(self.properties),
        ]

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
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties), "--standalone"]
        done = subprocess.run(
            [self._java, "-cp", self._classpath, *tool], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
