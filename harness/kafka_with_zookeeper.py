"""Real brokers of the last Apache Kafka that keeps its metadata in ZooKeeper, from Maven's jars."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness import class_archives, jars, requirements
from harness.processes import BrokerProcess
from harness.waiting import until
from harness.zookeeper import ZooKeeperEnsemble

RUNTIME = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CHROOT = "/kafka"
START_TIMEOUT_SECONDS = 90
LOGGING = """log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.controller=INFO
log4j.logger.state.change.logger=INFO
"""


def with_dots(settings: Mapping[str, str]) -> dict[str, str]:
    """Kafka's names of settings, which have no underscores, from names that may have them."""
    return {name.replace("_", "."): value for name, value in settings.items()}


class ZooKeeperKafkaBroker(BrokerProcess):
    """One broker, a member of whatever cluster `zookeeper_connect` names.

    Settings have Kafka's names, with dots or with underscores for them.
    """

    name = "Apache Kafka with ZooKeeper"

    def __init__(self, directory: Path, zookeeper_connect: str, broker_id: int, **settings: str) -> None:
        super().__init__(directory)
        self.broker_id = broker_id
        self.data_directory = directory / "data"
        self.properties = directory / "server.properties"
        self.zookeeper_connect = zookeeper_connect
        self._given: dict[str, str] = {}
        self.configure(**settings)
        self._logging = directory / "log4j.properties"
        self._logging.write_text(LOGGING)
        self._java = requirements.java()
        self._classpath = jars.classpath_with_zookeeper()
        self._class_options = self._start_from_archive()

    def configure(self, **settings: str) -> None:
        """Have these settings too, over those it was made with, from the next start on."""
        self._given |= with_dots(settings)
        lines = [f"{name}={value}\n" for name, value in (self._settings() | self._given).items()]
        self.properties.write_text("".join(lines))

    def command(self) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self._logging}"
        runtime = [self._java, *RUNTIME, *self._class_options, logging]
        return [*runtime, "-cp", self._classpath, "kafka.Kafka", str(self.properties)]

    def _start_from_archive(self) -> tuple[str, ...]:
        name = f"kafka-{jars.KAFKA_WITH_ZOOKEEPER_VERSION}"
        return class_archives.start_from(name, self._java, self._classpath, record=_record_classes)

    def _settings(self) -> dict[str, str]:
        return {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.data_directory),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
        }

    def _answers(self) -> bool:
        """The controller knows it, and has told it of the cluster."""
        return self.broker_id in self.known_brokers()

    def known_brokers(self) -> frozenset[int]:
        """The brokers that are alive, as this one was told; none where it does not answer."""
        metadata = self._metadata()
        return frozenset() if metadata is None else frozenset(metadata.brokers)

    def known_controller(self) -> int:
        """The controller, as this broker was told; -1 where it was told of none, or does not answer."""
        metadata = self._metadata()
        return -1 if metadata is None else metadata.controller_id

    def _metadata(self) -> Any | None:
        try:
            return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}).list_topics(timeout=5)
        except KafkaException:
            return None


class ZooKeeperKafkaCluster:
    """Brokers 0, 1, … and a ZooKeeper of their own, or another's: `start`, `stop`, `kill`, and of each broker by itself."""

    def __init__(
        self,
        directory: Path,
        size: int = 3,
        *,
        zookeeper_size: int = 1,
        zookeeper_connect: str | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
        **settings: str,
    ) -> None:
        """`own` has settings of single brokers by their ids; `settings` hold for all.

        With `zookeeper_connect` there is no ZooKeeper to start.
        """
        self.zookeeper: ZooKeeperEnsemble | None = None
        if zookeeper_connect is None:
            self.zookeeper = ZooKeeperEnsemble(directory, zookeeper_size, jars.classpath_with_zookeeper())
            zookeeper_connect = self.zookeeper.connect + CHROOT
        self.zookeeper_connect = zookeeper_connect
        self._directory = directory
        self._settings = _for_a_cluster_of(size) | with_dots(settings)
        self.brokers: dict[int, ZooKeeperKafkaBroker] = {}
        for broker_id in range(size):
            self.add(broker_id, **(own or {}).get(broker_id, {}))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def controller(self) -> ZooKeeperKafkaBroker:
        """As the brokers that run agree on it. Raises ValueError where they do not."""
        (broker_id,) = {broker.known_controller() for broker in self.brokers.values() if broker.is_running}
        return self.brokers[broker_id]

    def add(self, broker_id: int, **settings: str) -> ZooKeeperKafkaBroker:
        """One more broker, which does not run yet. `settings` are its own, over those of the cluster."""
        directory = self._directory / f"broker-{broker_id}"
        own = self._settings | with_dots(settings)
        broker = ZooKeeperKafkaBroker(directory, self.zookeeper_connect, broker_id, **own)
        self.brokers[broker_id] = broker
        return broker

    def start(self) -> None:
        """Start what does not run, and wait until every broker knows every other."""
        if self.zookeeper is not None:
            self.zookeeper.start()
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.launch()
        for broker in self.brokers.values():
            broker.wait_until_ready()
        everyone = frozenset(self.brokers)
        until(
            lambda: all(broker.known_brokers() == everyone for broker in self.brokers.values()), START_TIMEOUT_SECONDS
        )

    def stop(self) -> None:
        """A clean stop, of the brokers one after the other, and of their ZooKeeper."""
        for broker in self.brokers.values():
            broker.stop()
        if self.zookeeper is not None:
            self.zookeeper.stop()

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()


class _RecordedBroker(ZooKeeperKafkaBroker):
    """A broker that archives, when it ends, the classes it has loaded."""

    def __init__(self, directory: Path, zookeeper_connect: str, archive: Path) -> None:
        self._archive = archive
        super().__init__(directory, zookeeper_connect, 0)

    def _start_from_archive(self) -> tuple[str, ...]:
        return class_archives.record_in(self._archive)


def _record_classes(scratch: Path, archive: Path) -> None:
    zookeeper = ZooKeeperEnsemble(scratch, classpath=jars.classpath_with_zookeeper())
    zookeeper.start()
    broker = _RecordedBroker(scratch / "broker", zookeeper.connect, archive)
    broker.start()
    broker.stop(120)
    zookeeper.stop()


def _for_a_cluster_of(size: int) -> dict[str, str]:
    replicas = str(min(size, 3))
    in_sync_min = str(max(1, min(size, 3) - 1))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync_min,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_min,
    }
