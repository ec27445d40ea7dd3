"""The two brokers that are compared: `oncelog serve` and Apache Kafka, each as it is started in earnest."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import Side
from harness import jars, requirements
from harness.kafka import KafkaNode
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess

KAFKA = "Apache Kafka 4.3.1"
PARTITIONS = 4
TOPIC_SETTINGS = {"file.delete.delay.ms": "0"}
"""Files of a deleted topic would go in a minute, while the other side is measured."""

# What Kafka's own start script gives the JVM.
JVM_SETTINGS = (
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


class WarmKafkaNode(KafkaNode):
    """A node that may optimise itself as long as it runs; the one of the tests is in a hurry to start."""

    def command(self) -> list[str]:
        return [self._java, *JVM_SETTINGS, "-cp", self._classpath, "kafka.Kafka", str(self.properties)]


def new_node(side: Side, directory: Path, settings: Mapping[str, str] = MappingProxyType({})) -> BrokerProcess:
    """A broker on a data directory of its own, not started yet. Settings have Kafka's names."""
    if directory.exists():
        shutil.rmtree(directory)
    return OncelogNode(directory, **settings) if side is Side.OURS else WarmKafkaNode(directory, **settings)


def require(side: Side) -> None:
    """Leave a program, as a test is left, when the machine cannot run this side's broker."""
    if side is Side.PEER:
        requirements.java()
        jars.kafka_libs()


class Topics:
    """Topics of one broker, made for one load and deleted after it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._numbers = itertools.count()

    def create(self, purpose: str, partitions: int = PARTITIONS) -> str:
        name = f"bench-{purpose}-{next(self._numbers)}"
        self._admin.create_topics([NewTopic(name, partitions, 1, config=TOPIC_SETTINGS)])[name].result(30)
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(30)
