"""The metadata of a member of a cluster: ZooKeeper has it, and the controller tells of it, as in Kafka 3.9."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from oncelog import groups
from oncelog.broker.config.listeners import Endpoint, inter_broker_listener
from oncelog.broker.config.setting import text_of
from oncelog.broker.coordinators.loading import JournalState, find_partitions
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.coordinators.verification import PartitionVerification
from oncelog.broker.identity import Identity, check_member, identity_in_cluster
from oncelog.broker.metadata import BrokerParts, Crash, GroupFormat, LogRules, StorageParts
from oncelog.broker.storage.altering import Alterations
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.opening import LeftByLastStop
from oncelog.broker.storage.partition import Partition
from oncelog.cluster.altering import ClusterAlterations
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.cluster.configs import ClusterConfigs
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.members import KnownMembers
from oncelog.cluster.membership import ClusterMembership
from oncelog.cluster.replicas.fetcher import FetcherParts
from oncelog.cluster.scram_users import ClusterScramUsers
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.topic_changes import TopicChanges
from oncelog.cluster.zookeeper.session import ZooKeeper
from oncelog.coordination import Promise, start
from oncelog.environment import BrokerNetwork
from oncelog.log import NO_LEADER_EPOCH


class ZooKeeperMetadata:
    apis = CLUSTER_APIS
    # Kafka's clusters over ZooKeeper have none of them: transactions are those of KIP-98, groups have the classic protocol.
    highest_features: Mapping[str, int] = {}
    group_format = GroupFormat(groups.decode_of_member, stores_topic_ids=True)
    is_stop_clean = True

    alterations: Alterations
    cluster_configs: ClusterConfigs
    cluster_scram_users: ClusterScramUsers
    membership: ClusterMembership
    shared_topics: SharedTopics
    topic_changes: TopicChanges
    topics: SharedTopics
    zookeeper: ZooKeeper
    producer_ids: ProducerIds
    known_brokers: KnownMembers
    controller: Controller

    def __init__(self, zookeeper: ZooKeeper, network: BrokerNetwork, broker: BrokerParts) -> None:
        self._broker = broker
        self._endpoints: Sequence[Endpoint] = ()
        listener = inter_broker_listener(broker.settings)
        self.zookeeper = zookeeper
        self.membership = ClusterMembership(broker, zookeeper, network, listener)
        self.view = self.membership.members
        self.topic_changes = self.membership.topic_changes
        self.cluster_configs = self.membership.configs
        self.scram_users = self.membership.scram_users
        self.cluster_scram_users = ClusterScramUsers(broker.clock, self.cluster_configs, zookeeper)

    async def identify(self, new_id: Callable[[], str]) -> Identity:
        directories = self._broker.log_directories
        is_new = directories.identity() is None
        cluster_id = await self.membership.cluster_id(new_id() if is_new else None)
        identity = identity_in_cluster(directories, cluster_id, self._broker.settings.number("node.id"))
        await self.membership.learn_settings()
        return identity

    def find_partitions(self, state: JournalState, journal_path: str) -> None:
        directories = self._broker.log_directories
        check_member(state, directories.home)
        find_partitions(directories, state, journal_path, are_replicas=True)

    def configure(self, state: JournalState) -> None:
        """ZooKeeper has them, and they were read with the identity."""

    def log_rules(self, leader_epoch: int) -> LogRules:
        return LogRules(
            NO_LEADER_EPOCH, are_replicas=True, high_watermarks=self._broker.log_directories.high_watermarks()
        )

    def make_topics(self, parts: StorageParts, state: JournalState) -> Sequence[Iterable[None]]:
        broker, departures = self._broker, parts.departures
        self.topics = self.shared_topics = topics = SharedTopics(
            parts.journal,
            broker.slices,
            broker.settings,
            self.cluster_configs,
            parts.open_log,
            self.topic_changes.auto_create,
            departures.before_leaving,
            departures.after_leaving,
            departures.delete_unopened,
            broker.survives,
        )
        self._departures = departures
        return [topics.replay_hosted(one.topic, topic_id, one.partitions) for topic_id, one in state.hosted.items()]

    def forget_doubtful(self, left: LeftByLastStop) -> None:
        """The other replicas say what counts."""

    def open(self, node_id: int, state: JournalState, checkpoints: Checkpoints, durability: Durability) -> None:
        broker = self._broker
        parts = FetcherParts(broker.clock, node_id, self.topics, checkpoints, durability)
        self.membership.open(parts, self.shared_topics, broker.coordinator_partitions)
        self.producer_ids = self.membership.producer_ids
        self.known_brokers = self.membership.known_brokers
        self.controller = self.membership.controller
        self.alterations = ClusterAlterations(
            broker.clock, self.cluster_configs, node_id, broker.settings, self.zookeeper
        )

    def verification(self, transactions: Transactions, session_guard: SessionGuard) -> PartitionVerification:
        return self.membership.verification(transactions)

    async def lead(self, in_turns: Callable[[Iterator[None]], Awaitable[None]]) -> None:
        """The controller says what this broker leads. The coordinators are there now, and follow the topics."""
        self.shared_topics.on_learned = self._broker.coordinator_partitions.follow_count
        self.shared_topics.on_gone = self._departures.forget_offsets

    def recover(self, crash: Crash, transactions: Transactions, end_hanging: Callable[[], int]) -> int:
        """Recovers nothing: other replicas have the acknowledged records, and coordinators are elected again."""
        return 0

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints

    async def join(self) -> None:
        await self.membership.join(self._endpoints, text_of(self._broker.settings.value("broker.rack")))

    def repeated_work(self, checkpoints: Checkpoints) -> Mapping[Callable[[], Promise[None] | None], int]:
        # As Kafka's highwatermark-checkpoint: a start knows no more of what the others have.
        return {checkpoints.write: self._broker.settings.number("replica.high.watermark.checkpoint.interval.ms")}

    def went_offline(self, partition: Partition) -> None:
        self.membership.went_offline(partition)

    def metrics(self) -> Iterator[str]:
        return self.membership.metrics()

    def hand_over(self) -> Promise[None]:
        if not self._broker.settings.value("controlled.shutdown.enable"):
            return Promise.ready(None)
        return start(self.membership.hand_over())

    def stop(self) -> None:
        self.membership.stop()
