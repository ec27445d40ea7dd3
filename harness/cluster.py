"""A cluster of real brokers over a real ZooKeeper: of oncelog, of Apache Kafka, or of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.processes import BrokerProcess
from harness.waiting import until
from harness.zookeeper import ZooKeeperEnsemble

CHROOT = "/cluster"
START_TIMEOUT_SECONDS = 90
REPLICAS_MAX = 3
FOR_ALL = {
    "zookeeper.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""What the members of a test's cluster have, whatever they are."""


def with_dots(settings: Mapping[str, str]) -> dict[str, str]:
    """Kafka's names of settings, which have no underscores, from names that may have them."""
    return {name.replace("_", "."): value for name, value in settings.items()}


class ClusterMember(BrokerProcess):
    """One broker, a member of whatever cluster `zookeeper_connect` names.

    Settings have Kafka's names, with dots or with underscores for them.
    """

    def __init__(self, directory: Path, zookeeper_connect: str, broker_id: int, **settings: str) -> None:
        super().__init__(directory)
        self.broker_id = broker_id
        self.zookeeper_connect = zookeeper_connect
        self.data_directory = directory / "data"
        self._given: dict[str, str] = {}
        self.configure(**settings)

    @staticmethod
    def zookeeper_classpath() -> str | None:
        """The jars of the ZooKeeper that comes with such a broker, if one does."""
        return None

    def configure(self, **settings: str) -> None:
        """Have these settings too, over those it was made with, from the next start on."""
        self._given |= with_dots(settings)

    @property
    def settings(self) -> dict[str, str]:
        """All that it has, under Kafka's names."""
        own = {"broker.id": str(self.broker_id), "zookeeper.connect": self.zookeeper_connect}
        return FOR_ALL | own | self._given

    @property
    def log_directories(self) -> list[Path]:
        named = self.settings.get("log.dirs")
        return [Path(one) for one in named.split(",")] if named else [self.data_directory]

    def known_brokers(self) -> frozenset[int]:
        """The brokers that are alive, as this one was told; none where it does not answer."""
        metadata = self._metadata()
        return frozenset() if metadata is None else frozenset(metadata.brokers)

    def known_controller(self) -> int:
        """The controller, as this broker was told; -1 where it was told of none, or does not answer."""
        metadata = self._metadata()
        return -1 if metadata is None else metadata.controller_id

    def _answers(self) -> bool:
        """The controller knows it, and has told it of the cluster."""
        return self.broker_id in self.known_brokers()

    def _metadata(self) -> Any | None:
        try:
            return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}).list_topics(timeout=5)
        except KafkaException:
            return None


class Cluster:
    """Brokers 0, 1, … of these kinds and a ZooKeeper of their own, or another's: `start`, `stop`, `kill` of all and of each."""

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[type[ClusterMember]],
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
            classpath = next((path for kind in kinds if (path := kind.zookeeper_classpath())), None)
            self.zookeeper = ZooKeeperEnsemble(directory, zookeeper_size, classpath)
            zookeeper_connect = self.zookeeper.connect + CHROOT
        self.zookeeper_connect = zookeeper_connect
        self._directory = directory
        self._settings = _replication_among(len(kinds)) | with_dots(settings)
        self.brokers: dict[int, ClusterMember] = {}
        for broker_id, kind in enumerate(kinds):
            self.add(broker_id, kind, **(own or {}).get(broker_id, {}))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def controller(self) -> ClusterMember:
        """As the brokers that run agree on it. Raises ValueError where they do not."""
        (broker_id,) = {broker.known_controller() for broker in self.brokers.values() if broker.is_running}
        return self.brokers[broker_id]

    def add(self, broker_id: int, kind: type[ClusterMember], **settings: str) -> ClusterMember:
        """One more broker, which does not run yet. `settings` are its own, over those of the cluster."""
        directory = self._directory / f"broker-{broker_id}"
        own = self._settings | with_dots(settings)
        broker = kind(directory, self.zookeeper_connect, broker_id, **own)
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


def _replication_among(size: int) -> dict[str, str]:
    replicas = str(min(size, REPLICAS_MAX))
    in_sync_min = str(max(1, min(size, REPLICAS_MAX) - 1))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync_min,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_min,
    }
