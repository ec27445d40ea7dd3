"""The broker: puts its parts together, brings back what is on disk, and stops.

It holds no rule of the protocol and touches no part of the machine: what it asks of the world comes in through
`Environment`, and bytes come and go through `receive`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.apis import APIS, CLUSTER_APIS
from oncelog.broker.config.configuration import Settings, SettingSource
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.config.setting import text_of
from oncelog.broker.coordinators import hanging
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_log import GroupLog
from oncelog.broker.coordinators.group_partitions import GroupPartitions
from oncelog.broker.coordinators.known_brokers import KnownBrokers, OneBroker
from oncelog.broker.coordinators.loading import JournalState, find_partitions, read_journal
from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ProducerIds, ProducerIdSource
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.dispatch import Dispatch
from oncelog.broker.fetch_sessions import FetchSessions
from oncelog.broker.housekeeping import Housekeeping
from oncelog.broker.identity import check_kind, take_identity
from oncelog.broker.readiness import Readiness, StartProgress
from oncelog.broker.request import Peer
from oncelog.broker.slices import Slices, Turn
from oncelog.broker.storage.auto_creation import internal_partition_count
from oncelog.broker.storage.changes import Changes
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.cleaner import LogCleaner
from oncelog.broker.storage.closing import close_logs, mark_clean_shutdown
from oncelog.broker.storage.disk_failures import DiskFailures
from oncelog.broker.storage.disk_space import DiskSpace
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.journal import (
    FILE_NAME,
    BootTrusted,
    BrokerStarted,
    Journal,
    LogDirectoriesNamed,
)
from oncelog.broker.storage.log_settings import log_config
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.opening import LeftByLastStop, LogOpening, say_what_is_missing
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.partition import Partition, UnopenedLog
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topic, Topics
from oncelog.broker.view import Alone, ClusterView
from oncelog.coordination import Parked, start
from oncelog.environment import BrokerNetwork, Clock, Disk, DiskError, Random, Workers
from oncelog.groups import GroupCoordinator, MembershipLimits
from oncelog.log import (
    NO_LEADER_EPOCH,
    DamagedLogError,
    LogDirectories,
    OwnCheckpoint,
    PartitionLog,
    Replayed,
    delete_partition,
    read_own_checkpoint,
    replay,
    uuid_text,
)
from oncelog.transactions import TransactionCoordinator

if TYPE_CHECKING:
    from oncelog.broker.authentication import SaslAuthenticator
    from oncelog.broker.cluster.altering import ClusterAlterations
    from oncelog.broker.cluster.configs import ClusterConfigs
    from oncelog.broker.cluster.controller import Controller
    from oncelog.broker.cluster.membership import ClusterMembership
    from oncelog.broker.cluster.scram_users import ClusterScramUsers
    from oncelog.broker.cluster.topic_changes import TopicChanges
    from oncelog.broker.config.listener_security import ListenerSecurity
    from oncelog.broker.config.listeners import Endpoint
    from oncelog.broker.storage.shared_topics import SharedTopics
    from oncelog.zookeeper.session import ZooKeeper

logger = logging.getLogger("oncelog.broker")

KEPT = ".kept"
MINUTE_MS = 60_000
TRANSACTION_FEATURE, TRANSACTION_VERSION = "transaction.version", 2


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker may ask of the world."""

    clock: Clock
    disk: Disk
    workers: Workers
    random: Random
    network: BrokerNetwork | None = None
    zookeeper: ZooKeeper | None = None
    """Both for a member of a cluster."""


@dataclass(frozen=True, slots=True)
class StartReport:
    """What starting found. Bytes are those that followed the last checkpoint, and those of torn appends.

    `damage` has a sentence for each partition that is offline.
    """

    was_clean: bool
    partitions_read: int
    bytes_read: int
    bytes_cut: int
    hanging_transactions: int
    damage: tuple[str, ...]


class BrokerCore:
    """One node. `on_failure` hears of a disk that it cannot do without, or of a bug: it answers nothing any more; stop it then."""

    cluster_id: str
    known_brokers: KnownBrokers
    membership: ClusterMembership | None
    """What a member of a cluster has, and a broker that is alone has not."""
    node_id: int
    producer_ids: ProducerIdSource
    topics: Topics
    view: ClusterView

    alterations: ClusterAlterations
    cluster_configs: ClusterConfigs
    cluster_scram_users: ClusterScramUsers
    controller: Controller
    shared_topics: SharedTopics
    topic_changes: TopicChanges
    zookeeper: ZooKeeper

    def __init__(
        self,
        environment: Environment,
        log_directories: Sequence[str],
        settings: Mapping[str, str],
        on_failure: Callable[[BaseException], None],
        *,
        in_turns: bool = False,
    ) -> None:
        """Take the directories and bring back what is in them. Raises DirectoryInUseError, DiskError and SettingError.

        With `in_turns` others have their turn meanwhile, and requests may come: `progress` says how far it has come, and
        an error goes to `on_failure` where it comes up when this is over.
        """
        self.settings = Settings(settings)
        self.clock = environment.clock
        self.slices = Slices(environment.clock)
        self.workers = environment.workers
        self._disk = environment.disk
        self._random = environment.random
        self._report_failure = on_failure
        self._has_failed = False
        # Kafka's clusters over ZooKeeper know of no level of it: transactions are those of KIP-98.
        self.features = {} if self.settings.is_in_cluster else {TRANSACTION_FEATURE: TRANSACTION_VERSION}
        self.highest_features = dict(self.features)
        self.features_epoch = 0
        self.apis = CLUSTER_APIS if self.settings.is_in_cluster else APIS
        self.progress = StartProgress()
        self._turn = Turn(environment.clock) if in_turns else None
        self.receive = Dispatch(
            self, self.apis, environment.clock, environment.workers, self.progress, self.fail, lambda: self._has_failed
        ).receive
        self.log_directories = LogDirectories(environment.disk, log_directories, FILE_NAME)
        self._disk_failures = DiskFailures(self.log_directories, self._stop_answering)
        self.survives = self._disk_failures.survives
        self._loading = start(self._load_or_release(environment))

    async def _load_or_release(self, environment: Environment) -> None:
        try:
            self.disk_space = DiskSpace(
                environment.disk, self.log_directories, self.settings.number("log.dir.reserve.bytes"), self.survives
            )
            await self._load(environment)
        except BaseException:
            self.log_directories.release()
            raise

    async def _in_turns(self, steps: Iterable[None]) -> None:
        turn = self._turn
        for _ in steps:
            if turn is not None and turn.is_over:
                await turn.rest()

    async def _load(self, environment: Environment) -> None:
        directories = self.log_directories
        self.membership = None
        if environment.zookeeper is not None and environment.network is not None:
            # A broker that is alone starts without all of it.
            from oncelog.broker.cluster import beginning

            self.membership = beginning.new_membership(
                self, environment.zookeeper, environment.network, environment.random
            )

        def new_id() -> str:
            return uuid_text(environment.random.uuid())

        cluster_id = None
        if self.membership is not None:
            cluster_id = await self.membership.cluster_id(new_id() if directories.identity() is None else None)
        self.cluster_id, self.node_id = take_identity(directories, self.settings, new_id, cluster_id)
        if self.membership is not None:
            await self.membership.configs.start()
        self._journal = Journal(environment.disk, directories.home, self.fail)
        own = read_own_checkpoint(environment.disk, directories.home)
        state = read_journal(self._journal, 0 if own is None else own.journal_bytes)
        check_kind(state, directories.home, is_in_cluster=self.membership is not None)
        find_partitions(directories, state, self._journal.path, is_member=self.membership is not None)
        paths = directories.claim(self.cluster_id, self.node_id, new_id)
        if paths != state.log_directories:
            self._journal.append_now(LogDirectoriesNamed(paths=paths))
        was_clean = directories.take_clean_shutdown()
        self.changes = Changes(self._journal)
        if self.membership is None:
            configs = state.broker_configs
            self.settings.configure(SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG, configs.get("", {}))
            self.settings.configure(SettingSource.DYNAMIC_BROKER_CONFIG, configs.get(str(self.node_id), {}))
        self.group_configs = GroupConfigs(self.settings, state.group_configs)
        self.leader_epoch = state.last_leader_epoch + 1
        self.features |= state.features
        self.features_epoch = state.features_epoch
        replayed = self._replay_write_ahead(state)
        left = LeftByLastStop(
            was_clean,
            directories.recovery_points(),
            directories.log_start_offsets(),
            directories.cleaned_offsets(),
            _durable_ends(replayed, own),
            None if own is None else own.aborted,
            None if own is None else own.gaps_below,
            {} if self.membership is None else directories.high_watermarks(),
        )
        if state.last_leader_epoch >= 0:
            say_what_is_missing(directories, own, replayed, was_clean=was_clean)
        opening = LogOpening(
            environment.disk,
            self.clock,
            directories,
            self.leader_epoch if self.membership is None else NO_LEADER_EPOCH,
            state.compacted,
            left,
            self.survives,
            is_replica=self.membership is not None,
        )
        self.durability = Durability(
            environment.disk, directories, self.survives, number=replayed.next_number, has_decisions=_has_decisions
        )
        self.fetch_sessions = FetchSessions(
            environment.random, self.settings.number("max.incremental.fetch.session.cache.slots")
        )
        topics_open = self._make_topics(environment.random, opening, state)
        self.checkpoints = Checkpoints(
            self.slices, environment.disk, directories, self.topics, self._journal, self.survives, own
        )
        self.moves = LogMoves(self, environment.disk, environment.random)
        for topic_opens in topics_open:
            await self._in_turns(topic_opens)
        opening.make_durable()
        if self.membership is None:
            self._check_epochs()
        self._journal.append_now(BrokerStarted(leader_epoch=self.leader_epoch))
        boot_id = environment.disk.boot_id()
        lost_power = not was_clean and boot_id != state.boot_id
        if lost_power and self.membership is None:
            self._cut_back_decisions(left)
        opening.forget()
        self._find_others(state)
        self._make_coordinators(environment.random)
        self.progress.reach(Readiness.LOGS)
        self.topics.on_offline = self._went_offline
        if self.membership is None:
            self.progress.reach(Readiness.METADATA)
            for name in (TRANSACTION_STATE, CONSUMER_OFFSETS):
                await self._in_turns(self._lead(name))
        if not was_clean or own is None:
            # From now on the logs' own files vouch for what is in them.
            self.checkpoints.write_now()
        for path in replayed.files:
            if replayed.is_whole:
                environment.disk.remove(path)
            else:
                # For whoever repairs the log that is too short for what is in here.
                environment.disk.rename(path, path + KEPT)
        ended = 0
        self._is_trusted = not lost_power or self.membership is not None
        self.transactions.complete_prepared()
        if self.membership is None:
            start(self._trust(boot_id, self.transactions.fence_all() if lost_power else None))
            ended = 0 if was_clean else hanging.end_after_start(self)
        recoveries = [partition.log.recovery for partition in self.topics.partitions()]
        self.start_report = StartReport(
            was_clean,
            sum(recovery.bytes_read > 0 for recovery in recoveries),
            sum(recovery.bytes_read for recovery in recoveries),
            sum(recovery.bytes_cut for recovery in recoveries),
            ended,
            tuple(one.damage for one in self.topics.every_partition() if one.damage is not None),
        )
        self.disk_space.keep_back()
        self.memberships.begin()
        self._housekeeping = Housekeeping(self)
        self._cleaner = LogCleaner(self, environment.disk)
        self._disk_failures.begin(self.topics, self._journal)
        self.moves.resume()
        if self.membership is None:
            self.progress.reach(Readiness.COORDINATORS)
        else:
            await self.membership.join(self._endpoints, text_of(self.settings.value("broker.rack")))

    def _find_others(self, state: JournalState) -> None:
        """Who gives out producer ids, and who leads what."""
        if self.membership is None:
            self.producer_ids = ProducerIds(self._journal, state.reserved_producer_ids)
            self.known_brokers = OneBroker(self)
        else:
            from oncelog.broker.cluster import beginning

            beginning.know_the_others(self, self.membership, self.shared_topics)

    def _make_topics(self, random: Random, opening: LogOpening, state: JournalState) -> list[Iterator[None]]:
        """Know the topics that there are; return what opens the logs of each, one in each step."""
        if self.membership is None:
            self.own_topics = OwnTopics(
                self._journal,
                self.slices,
                random,
                self.leader_epoch,
                self.settings,
                opening.open,
                self._before_deletion,
                self._after_deletion,
                self._follow_partition_count,
                self._delete_unopened,
                self.survives,
            )
            self.topics = self.own_topics
            return [self.own_topics.replay_created(record) for record in state.topics.values()]
        from oncelog.broker.cluster import beginning

        self.topics = self.shared_topics = beginning.new_topics(
            self,
            self.membership,
            self._journal,
            opening.open,
            self._before_leaving,
            self._after_leaving,
            self._delete_unopened,
            self.survives,
        )
        return beginning.opening(self.shared_topics, state.hosted)

    def _replay_write_ahead(self, state: JournalState) -> Replayed:
        """Give the logs back what they had lost to a power cut, before they are opened."""
        names = {record.uuid: record.name for record in state.topics.values()}
        names |= {topic_id: one.topic for topic_id, one in state.hosted.items()}

        def path(topic_id: UUID, partition: int) -> str | None:
            name = names.get(topic_id)
            return None if name is None else self.log_directories.partition_path(name, partition)

        return replay(self._disk, self.log_directories.home, path)

    def _check_epochs(self) -> None:
        """Raise DiskError if the journal does not know of a start that is in a log: numbers would be given out twice."""
        for partition in self.topics.partitions():
            if partition.log.newest_epoch >= self.leader_epoch:
                raise DiskError(
                    f"{self._journal.path} is damaged: it knows of {self.leader_epoch} starts, and {partition} has records of "
                    f"start {partition.log.newest_epoch + 1}: restore it from a copy"
                )

    def _cut_back_decisions(self, left: LeftByLastStop) -> None:
        """Forget every decision that was not durable: what it is about may be lost, and nobody was told of it."""
        for partition in self.topics.partitions():
            log = partition.log
            if _has_decisions(log):
                vouched = left.durable_ends.get((log.topic_id, log.partition), 0)
                try:
                    log.truncate_to(max(vouched, left.recovery_points.get((partition.topic, partition.index), 0)))
                except DamagedLogError as damage:
                    self.topics.take_offline(partition, damage)

    def _make_coordinators(self, random: Random) -> None:
        number = self.settings.number
        coordinator = TransactionCoordinator(
            internal_partition_count(self, TRANSACTION_STATE),
            transaction_version=self.features.get(TRANSACTION_FEATURE, 0),
            timeout_max_ms=number("transaction.max.timeout.ms"),
            id_expiration_ms=number("transactional.id.expiration.ms"),
        )
        self.session_guard = SessionGuard(self.settings, coordinator)
        self._loads = Slices(self.clock)
        self.transactions: Transactions = Transactions(self, coordinator, self._loads)
        if self.membership is not None:
            self.verification = self.membership.verification(self.transactions)
            self.shared_topics.on_learned = self._follow_partition_count
        groups = GroupCoordinator(
            internal_partition_count(self, CONSUMER_OFFSETS),
            metadata_max_units=number("offset.metadata.max.bytes"),
            retention_ms=number("offsets.retention.minutes") * MINUTE_MS,
            limits=MembershipLimits(
                session_min_ms=number("group.min.session.timeout.ms"),
                session_max_ms=number("group.max.session.timeout.ms"),
                first_delay_ms=number("group.initial.rebalance.delay.ms"),
                size_max=number("group.max.size"),
            ),
            consumer_limits=self.group_configs,
            topics=self.topics,
        )
        self.group_elections = Elections(self, CONSUMER_OFFSETS, GroupPartitions(self, groups), self._loads)
        group_log = GroupLog(self, groups, self.group_elections)
        self.offsets: CommittedOffsets = CommittedOffsets(self, groups, group_log)
        if self.membership is not None:
            self.shared_topics.on_gone = self.offsets.forget_partitions
        self.memberships: Memberships = Memberships(self, groups, group_log, random)

    async def _trust(self, boot_id: str, fenced: Parked[None] | None) -> None:
        """Write down that nothing since this boot is lost; after a power cut, once every producer is fenced."""
        if fenced is not None:
            await fenced
            if not self.transactions.knows_every_id():
                # Those whose log is damaged are fenced by the start that can read it: until then no stop is a clean one.
                return
        self._is_trusted = True
        await self._journal.write([BootTrusted(boot_id=boot_id)])

    def serve_at(self, endpoints: Sequence[Endpoint]) -> None:
        """Say where clients reach this broker, at each listener that they are told of; it is what Metadata answers."""
        self._endpoints = endpoints
        if not self.settings.is_in_cluster:
            self.view = Alone(self.node_id, endpoints, text_of(self.settings.value("broker.rack")))

    def new_authenticator(self, security: ListenerSecurity, complete: Callable[[], None]) -> SaslAuthenticator:
        """For a connection to a listener with SASL: it serves it until `complete` is called."""
        # Only now: most brokers have no such listener.
        from oncelog.broker.authentication import SaslAuthenticator

        return SaslAuthenticator(
            self.clock,
            self._random,
            security.mechanisms,
            security.plain_users,
            None if self.membership is None else self.membership.scram_users,
            self.settings.number("connection.failed.authentication.delay.ms"),
            self.receive,
            complete,
        )

    def finalize_feature(self, name: str, level: int) -> None:
        """Set the level of a feature; the journal says so already."""
        logger.info("feature %s has level %d", name, level)
        self.features[name] = level
        self.features_epoch += 1
        if name == TRANSACTION_FEATURE:
            self.transactions.coordinator.transaction_version = level

    def give_up_start(self) -> None:
        """Load no more, and leave the directories: cleanly, where all is loaded and only the controller has said nothing yet."""
        if self._loading.is_released and not self._has_failed:
            self.stop()
        else:
            self._loading.end()

    def connection_closed(self, connection: Peer) -> None:
        if self.progress.reached >= Readiness.LOGS:
            self.session_guard.connection_closed(connection)

    def fail(self, error: BaseException) -> None:
        """Hear of what nobody expected: a disk that fails, or a bug, after which the broker answers nothing any more."""
        if not (isinstance(error, DiskError) and self.survives(error)):
            self._stop_answering(error)

    def _stop_answering(self, error: BaseException) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._report_failure(error)

    def hand_over(self) -> Parked[None]:
        """Before a stop: release when others lead what this broker leads, or when it is no use to wait for that any longer."""
        if self.membership is None or self._has_failed or not self.settings.value("controlled.shutdown.enable"):
            return Parked.ready(None)
        return start(self.membership.hand_over())

    def metrics(self) -> Iterator[str]:
        """Of a member of a cluster that has started, in the text format of Prometheus, line by line."""
        assert self.membership is not None, "a broker that is alone has none"
        return self.membership.metrics()

    def stop(self) -> None:
        """Close every log and leave the directories so that the next start has nothing to repair. Blocks on the disk."""
        self._housekeeping.stop()
        self._cleaner.stop()
        self.moves.stop()
        self.memberships.stop()
        if self.membership is not None:
            self.membership.stop()
        self._loads.stop()
        self.slices.stop()
        # A checkpoint that another thread writes would replace the same files as the last one.
        self._disk.settle()
        if not self._has_failed:
            close_logs(self._disk, self.log_directories, self.topics, self.survives)
            self.checkpoints.write_now()
            self.durability.close()
            self._journal.close()
            if self._is_trusted:
                mark_clean_shutdown(self.log_directories)
        self.log_directories.release()

    def _went_offline(self, partition: Partition) -> None:
        """Who coordinated what the partition has, does so no more: nothing can be recorded of it until it is back."""
        if partition.topic == TRANSACTION_STATE:
            self.transactions.elections.resigned(partition.index)
        elif partition.topic == CONSUMER_OFFSETS:
            self.group_elections.resigned(partition.index)
        if self.membership is not None:
            self.membership.went_offline(partition)

    def _follow_partition_count(self, topic: Topic) -> None:
        """Where a group or a transactional id belongs depends on how many partitions its topic has, whoever made that."""
        if topic.name == TRANSACTION_STATE:
            self.transactions.coordinator.partition_count = len(topic.partitions)
        elif topic.name == CONSUMER_OFFSETS:
            self.offsets.coordinator.partition_count = len(topic.partitions)
        else:
            return
        if self.membership is None:
            # There is nothing in it yet that others would have to wait for.
            for _ in self._lead(topic.name):
                pass

    def _lead(self, name: str) -> Iterator[None]:
        """Become the leader of every partition of a coordinator's topic, in short steps: a broker that is alone is that."""
        elections = self.transactions.elections if name == TRANSACTION_STATE else self.group_elections
        found = self.topics.named(name)
        for index in range(0 if found is None else len(found.partitions)):
            yield from elections.loading(index, self.leader_epoch)

    def _before_deletion(self, topic: Topic) -> Parked[None]:
        """A topic made anew under this name must not be held to the offsets and recovery points of the one that goes."""
        self.offsets.forget_partitions(topic.name, len(topic.partitions))
        return start(self._end_moves_and_checkpoint(topic))

    async def _end_moves_and_checkpoint(self, topic: Topic) -> None:
        await self.moves.end_all(topic)
        await self.checkpoints.write()

    def _before_leaving(self, partitions: Sequence[Partition]) -> Parked[None]:
        return start(self._end_moves_of(partitions))

    async def _end_moves_of(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            await self.moves.end((partition.topic_id, partition.index))
        await self.checkpoints.write()

    def _after_leaving(self, partitions: Sequence[Partition]) -> Parked[None]:
        self.log_directories.forget((one.topic, one.index) for one in partitions)
        return self.checkpoints.write()

    def _delete_unopened(self, topic: Topic, index: int, log: UnopenedLog) -> None:
        if self._disk.exists(log.directory):
            config = log_config(self.settings, topic.values, is_internal=topic.is_internal)
            delay_ms = config.file_delete_delay_ms
            delete_partition(self._disk, self.clock, log.directory, topic.name, index, topic.topic_id, delay_ms)

    def _after_deletion(self, topic: str, partition_count: int) -> Parked[None]:
        """Release when no power cut can bring the files back, for a topic made anew would take them for its own.

        A power cut may keep what the journal says next and lose what names the files had by then: a checkpoint makes durable
        which names are in each directory.
        """
        self.transactions.leaders_changed()
        self.log_directories.forget((topic, index) for index in range(partition_count))
        return self.checkpoints.write()


def _durable_ends(replayed: Replayed, own: OwnCheckpoint | None) -> dict[tuple[UUID, int], int]:
    """What the write-ahead log says, and what an earlier one said of logs that could not be opened since."""
    ends = {} if own is None else dict(own.durable_ends)
    for log, end in replayed.durable_ends.items():
        ends[log] = max(end, ends.get(log, 0))
    return ends


def _has_decisions(log: PartitionLog) -> bool:
    return log.name == f"{TRANSACTION_STATE}-{log.partition}"
