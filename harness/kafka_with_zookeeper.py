"""Real brokers of the last Apache Kafka that keeps its metadata in ZooKeeper, from Maven's jars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import class_archives, jars, requirements
from harness.cluster import Cluster, ClusterMember
from harness.zookeeper import ZooKeeperEnsemble

RUNTIME = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = """log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.controller=INFO
log4j.logger.state.change.logger=INFO
"""


class ZooKeeperKafkaBroker(ClusterMember):
    """Kafka 3.9 as a member of a cluster. Its log tells what the controller does."""

    name = "Apache Kafka with ZooKeeper"

    def __init__(self, directory: Path, zookeeper_connect: str, broker_id: int, **settings: str) -> None:
        self.properties = directory / "server.properties"
        super().__init__(directory, zookeeper_connect, broker_id, **settings)
        self._logging = directory / "log4j.properties"
        self._logging.write_text(LOGGING)
        self._java = requirements.java()
        self._classpath = jars.classpath_with_zookeeper()
        self._class_options = self._start_from_archive()

    @staticmethod
    def zookeeper_classpath() -> str:
        return jars.classpath_with_zookeeper()

    def configure(self, **settings: str) -> None:
        super().configure(**settings)
        where = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}", "log.dirs": str(self.data_directory)}
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in (where | self.settings).items()))

    def command(self) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self._logging}"
        runtime = [self._java, *RUNTIME, *self._class_options, logging]
        return [*runtime, "-cp", self._classpath, "kafka.Kafka", str(self.properties)]

    def _start_from_archive(self) -> tuple[str, ...]:
        name = f"kafka-{jars.KAFKA_WITH_ZOOKEEPER_VERSION}"
        return class_archives.start_from(name, self._java, self._classpath, record=_record_classes)


class ZooKeeperKafkaCluster(Cluster):
    """As many of them, and no other brokers."""

    def __init__(self, directory: Path, size: int = 3, **settings: Any) -> None:
        super().__init__(directory, (ZooKeeperKafkaBroker,) * size, **settings)


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
