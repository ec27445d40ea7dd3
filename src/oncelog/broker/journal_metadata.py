"""The metadata of a broker that is alone: its journal has the topics and settings, and it leads every partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from oncelog import groups
from oncelog.broker.after_a_crash import Boot, cut_back_decisions
from oncelog.broker.apis import APIS
from oncelog.broker.config.configuration import SettingSource
from oncelog.broker.config.listeners import Endpoint
from oncelog.broker.config.setting import text_of
from oncelog.broker.coordinators.known_brokers import OneBroker
from oncelog.broker.coordinators.loading import JournalState, find_partitions
from oncelog.broker.coordinators.producer_ids import ProducerIds, ReservedBlocks
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.coordinators.verification import OwnVerification, PartitionVerification
from oncelog.broker.features import SUPPORTED
from oncelog.broker.identity import Identity, check_alone, identity_alone
from oncelog.broker.metadata import BrokerParts, Crash, GroupFormat, LogRules, StorageParts
from oncelog.broker.readiness import Readiness
from oncelog.broker.storage.altering import Alterations, OwnAlterations
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.opening import LeftByLastStop
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topic
from oncelog.broker.view import Alone
from oncelog.coordination import Promise, start


class JournalMetadata:
    apis = APIS
    highest_features = SUPPORTED
    group_format = GroupFormat(groups.decode, stores_topic_ids=False)
    scram_users = None

    alterations: Alterations
    view: Alone
    own_topics: OwnTopics
    topics: OwnTopics
    producer_ids: ProducerIds
    known_brokers: OneBroker

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker

    async def identify(self, new_id: Callable[[], str]) -> Identity:
        settings = self._broker.settings
        self._identity = identity_alone(self._broker.log_directories, settings, new_id)
        self.view = Alone(self._identity.node_id, text_of(settings.value("broker.rack")))
        return self._identity

    def find_partitions(self, state: JournalState, journal_path: str) -> None:
        directories = self._broker.log_directories
        check_alone(state, directories.home)
        find_partitions(directories, state, journal_path)

    def configure(self, state: JournalState) -> None:
        settings, configs = self._broker.settings, state.broker_configs
        settings.configure(SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG, configs.get("", {}))
        settings.configure(SettingSource.DYNAMIC_BROKER_CONFIG, configs.get(str(self._identity.node_id), {}))

    def log_rules(self, leader_epoch: int) -> LogRules:
        return LogRules(leader_epoch, are_replicas=False, high_watermarks={})

    def make_topics(self, parts: StorageParts, state: JournalState) -> Sequence[Iterable[None]]:
        broker, departures = self._broker, parts.departures
        self._parts = parts
        self.topics = self.own_topics = OwnTopics(
            parts.journal,
            broker.slices,
            broker.random,
            parts.leader_epoch,
            broker.settings,
            parts.open_log,
            departures.before_deletion,
            departures.after_deletion,
            self._topic_is_made,
            departures.delete_unopened,
            broker.survives,
        )
        return [self.own_topics.replay_created(record) for record in state.topics.values()]

    def _topic_is_made(self, topic: Topic) -> None:
        """There is nothing in it yet that others would have to wait for."""
        self._broker.coordinator_partitions.follow_count(topic)
        for _ in self._broker.coordinator_partitions.leading(topic.name, self._parts.leader_epoch):
            pass

    def forget_doubtful(self, left: LeftByLastStop) -> None:
        cut_back_decisions(self.topics, left)

    def open(self, node_id: int, state: JournalState, checkpoints: Checkpoints, durability: Durability) -> None:
        blocks = ReservedBlocks(self._parts.journal, state.reserved_producer_ids)
        self.producer_ids = ProducerIds(blocks.next_block, blocks.first(), blocks.skip)
        self.known_brokers = OneBroker(node_id, self.topics, self.view)
        self.alterations = OwnAlterations(
            self._parts.changes, self._parts.group_configs, node_id, self._broker.settings, self.topics
        )

    def verification(self, transactions: Transactions, session_guard: SessionGuard) -> PartitionVerification:
        return OwnVerification(session_guard, transactions)

    async def lead(self, in_turns: Callable[[Iterator[None]], Awaitable[None]]) -> None:
        self._broker.progress.reach(Readiness.METADATA)
        for name in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            await in_turns(self._broker.coordinator_partitions.leading(name, self._parts.leader_epoch))

    def recover(self, crash: Crash, transactions: Transactions, end_hanging: Callable[[], int]) -> int:
        self._boot = Boot(crash.boot_id, self._parts.journal, transactions, is_trusted=not crash.lost_power)
        start(self._boot.trust())
        return 0 if crash.was_clean else end_hanging()

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        self.view.advertise(endpoints)

    async def join(self) -> None:
        self._broker.progress.reach(Readiness.COORDINATORS)

    def repeated_work(self, checkpoints: Checkpoints) -> Mapping[Callable[[], Promise[None] | None], int]:
        return {}

    def went_offline(self, partition: Partition) -> None:
        """Nobody else can lead it."""

    def metrics(self) -> Iterator[str]:
        return iter(())

    def hand_over(self) -> Promise[None]:
        return Promise.ready(None)

    def stop(self) -> None:
        """There is nobody to be told."""

    @property
    def is_stop_clean(self) -> bool:
        return self._boot.is_trusted
