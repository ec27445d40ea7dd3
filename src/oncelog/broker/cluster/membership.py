"""What makes a broker one of several: its entry in ZooKeeper, what the controller tells it, and its replicas of partitions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.cluster import fetcher
from oncelog.broker.cluster.asking import ask
from oncelog.broker.cluster.channels import Channels
from oncelog.broker.cluster.configs import ClusterConfigs
from oncelog.broker.cluster.fetcher import FetchSettings
from oncelog.broker.cluster.fetchers import Fetchers
from oncelog.broker.cluster.in_sync_changes import InSyncChanges
from oncelog.broker.cluster.known_members import KnownMembers
from oncelog.broker.cluster.members import Members
from oncelog.broker.cluster.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.cluster.registration import Registration
from oncelog.broker.cluster.replica import Surroundings
from oncelog.broker.cluster.replicas import Leads, Replicas
from oncelog.broker.cluster.topic_changes import TopicChanges
from oncelog.broker.cluster.watchers import Watchers
from oncelog.broker.readiness import Readiness
from oncelog.coordination import sleep, start
from oncelog.wire import ErrorCode
from oncelog.zookeeper.session import Create, Data, GetData, ZooKeeper
from oncelog.zookeeper.znodes import (
    BrokerZnode,
    ListenerEndpoint,
    decode_cluster_id,
    encode_cluster_id,
    paths,
)

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.readiness import StartProgress
    from oncelog.broker.storage.shared_topics import SharedTopics
    from oncelog.environment import Network, Random

logger = logging.getLogger("oncelog.broker")


class Needs(fetcher.Needs, Protocol):
    """What of the broker is needed here."""

    progress: StartProgress
    settings: Settings


class Membership:
    """Made before the logs are opened; `open` when they are, `join` when the broker can be told what to do with them."""

    def __init__(self, broker: Needs, zookeeper: ZooKeeper, network: Network, random: Random, listener: str) -> None:
        self._broker = broker
        self._zookeeper = zookeeper
        self._listener = listener
        number = broker.settings.number
        self.members = Members(listener)
        self._watchers = Watchers(zookeeper)
        node_id = broker.settings.number("node.id")
        self.configs = ClusterConfigs(zookeeper, self._watchers, broker.clock, broker.settings, node_id)
        self.topic_changes = TopicChanges(zookeeper, broker.clock, random, broker.settings, self.members)
        self._to_controller = Channels(network, broker.clock, random, str(node_id))
        self._to_leaders = Channels(network, broker.clock, random, f"broker-{node_id}-fetcher-0")
        self._to_others = Channels(network, broker.clock, random, f"broker-{node_id}-txn-marker-sender")
        self._changes = InSyncChanges(
            broker.clock,
            node_id,
            self.members,
            self._to_controller,
            number("controller.socket.timeout.ms"),
            lambda: self.epoch,
        )
        self.producer_ids = ProducerIdBlocks(
            broker.clock,
            node_id,
            self.members,
            self._to_controller,
            number("controller.socket.timeout.ms"),
            lambda: self.epoch,
        )

    @property
    def epoch(self) -> int:
        """This broker's epoch; -1 before it has one."""
        return self._registration.epoch

    async def cluster_id(self, new_id: str) -> str:
        """The id of the cluster, which the first broker gives it. Raises SessionEndedError."""
        for path in paths.MADE_AT_START:
            for parent in (*paths.parents(path), path):
                await ask(self._zookeeper, Create(parent))
        while True:
            found = await ask(self._zookeeper, GetData(paths.CLUSTER_ID))
            if isinstance(found, Data):
                return decode_cluster_id(found.data)
            await ask(self._zookeeper, Create("/cluster"))
            await ask(self._zookeeper, Create(paths.CLUSTER_ID, encode_cluster_id(new_id)))

    def open(self, topics: SharedTopics, leads: Leads) -> None:
        """The logs are open."""
        broker, number = self._broker, self._broker.settings.number
        self.topics = topics
        self.configs.follow(topics)
        settings = FetchSettings(
            number("replica.fetch.max.bytes"),
            number("replica.fetch.response.max.bytes"),
            number("replica.fetch.min.bytes"),
            number("replica.fetch.wait.max.ms"),
            number("replica.fetch.backoff.ms"),
            number("replica.socket.timeout.ms"),
            lambda: self.epoch,
        )
        self._fetchers = Fetchers(broker, self.members, self._to_leaders, settings)
        self._lag_time_max_ms = number("replica.lag.time.max.ms")

        def min_in_sync(name: str) -> int:
            topic = topics.named(name)
            return 1 if topic is None else int(topic.values["min.insync.replicas"])

        surroundings = Surroundings(
            broker.clock, broker.node_id, self._lag_time_max_ms, self.members, self._changes, min_in_sync
        )
        self.replicas = Replicas(broker.clock, broker.node_id, topics, self._fetchers, surroundings, leads)
        self.known_brokers = KnownMembers(topics, self.members, self._to_others, number("controller.socket.timeout.ms"))

    async def join(self, host: str, port: int, rack: str | None) -> None:
        """Be among the live brokers: from now on the controller says what to do. Raises SessionEndedError."""
        entry = BrokerZnode((ListenerEndpoint(self._listener, host, port),), self._broker.clock.now_ms(), rack)
        path = paths.broker(self._broker.node_id)
        self._registration = Registration(self._zookeeper, self._broker.clock, path, entry.encode())
        await self._registration.register()
        self._shrinking = start(self._shrink())

    async def _shrink(self) -> None:
        while True:
            await sleep(self._broker.clock, self._lag_time_max_ms / 2)
            self.replicas.shrink()

    def problem(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> ErrorCode | None:
        """Why a request of this controller, to this life of the broker, is not carried out; None if it is.

        Errors: stale_broker_epoch, stale_controller_epoch.
        """
        if broker_epoch != -1 and broker_epoch < self.epoch:
            return ErrorCode.stale_broker_epoch
        if not self.members.hear(controller_id, controller_epoch):
            return ErrorCode.stale_controller_epoch
        return None

    def is_told(self) -> None:
        """The controller has said what there is: clients can be served."""
        self._fetchers.members_changed()
        if self._broker.progress.reached < Readiness.METADATA:
            self._broker.progress.reach(Readiness.METADATA)
            self._broker.progress.reach(Readiness.COORDINATORS)

    def stop(self) -> None:
        self._shrinking.end()
        self.replicas.close()
        for channels in (self._to_controller, self._to_leaders, self._to_others):
            channels.close()
        self._zookeeper.close()
