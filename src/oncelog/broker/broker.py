"""The broker: puts its parts together, brings back what is on disk, and stops.

It holds no rule of the protocol and touches no part of the machine: what it asks of the world comes in through
`Environment`, and bytes come and go through `receive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.access import Access
from oncelog.broker.after_a_crash import (
    cut_back_decisions,
    has_decisions,
    left_by_last_stop,
    put_away,
    replay_write_ahead,
)
from oncelog.broker.apis import APIS
from oncelog.broker.boot import Boot
from oncelog.broker.config.configuration import Settings, SettingSource
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.config.setting import text_of
from oncelog.broker.coordinator_partitions import CoordinatorPartitions
from oncelog.broker.coordinators import hanging
from oncelog.broker.coordinators.configured import group_coordinator, transaction_coordinator
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_log import GroupLog
from oncelog.broker.coordinators.group_partitions import GroupPartitions
from oncelog.broker.coordinators.known_brokers import KnownBrokers, OneBroker
from oncelog.broker.coordinators.loading import JournalState, find_partitions, read_journal
from oncelog.broker.coordinators.marker_senders import MarkerSenders
from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ProducerIds, ReservedBlocks
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.coordinators.unconfirmed import UnconfirmedRecords
from oncelog.broker.departures import Departures
from oncelog.broker.dispatch import Dispatch
from oncelog.broker.features import FinalizedFeatures
from oncelog.broker.fetch_sessions import FetchSessions, partitions_max
from oncelog.broker.housekeeping import Housekeeping
from oncelog.broker.identity import check_kind, take_identity
from oncelog.broker.readiness import Readiness, StartProgress
from oncelog.broker.request import Peer
from oncelog.broker.slices import Slices, Turn
from oncelog.broker.starting import Environment, StartReport, report_of
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
    BrokerStarted,
    Journal,
    LogDirectoriesNamed,
)
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.opening import LeftByLastStop, LogOpening, say_what_is_missing
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topics
from oncelog.broker.view import Alone, ClusterView
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.coordination import Parked, start
from oncelog.environment import Disk, DiskError, Random
from oncelog.log import (
    NO_LEADER_EPOCH,
    LogDirectories,
    OwnCheckpoint,
    read_own_checkpoint,
    uuid_text,
)

if TYPE_CHECKING:
    from oncelog.broker.authentication import SaslAuthenticator
    from oncelog.broker.config.listener_security import ListenerSecurity
    from oncelog.broker.config.listeners import Endpoint
    from oncelog.cluster.altering import ClusterAlterations
    from oncelog.cluster.configs import ClusterConfigs
    from oncelog.cluster.controller.controller import Controller
    from oncelog.cluster.membership import ClusterMembership
    from oncelog.cluster.scram_users import ClusterScramUsers
    from oncelog.cluster.shared_topics import SharedTopics
    from oncelog.cluster.topic_changes import TopicChanges
    from oncelog.cluster.zookeeper.session import ZooKeeper


class BrokerCore:
    """One node. `on_failure` hears of a disk that it cannot do without, or of a bug: it answers nothing any more; stop it then."""

    cluster_id: str
    known_brokers: KnownBrokers
    membership: ClusterMembership | None
    """What a member of a cluster has, and a broker that is alone has not."""
    fetch_sessions: FetchSessions
    node_id: int
    producer_ids: ProducerIds
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
        own_principal: str | None = None,
    ) -> None:
        """Take the directories and bring back what is in them. Raises DirectoryInUseError, DiskError and SettingError.

        `own_principal` is who it shows to be to other brokers of its cluster, where they ask.
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
        self._coordinator_partitions = CoordinatorPartitions(self)
        self.features = FinalizedFeatures(self, is_in_cluster=self.settings.is_in_cluster)
        self.apis = CLUSTER_APIS if self.settings.is_in_cluster else APIS
        self.access = Access(self.settings, own_principal)
        self.progress = StartProgress()
        self._turn = Turn(environment.clock) if in_turns else None
        self.receive = Dispatch(
            self,
            self.apis,
            self.access,
            environment.clock,
            environment.workers,
            self.progress,
            self.fail,
            lambda: self._has_failed,
        ).receive
        self.log_directories = LogDirectories(environment.disk, log_directories, FILE_NAME)
        self._disk_failures = DiskFailures(self.log_directories, self._stop_answering)
        self.survives = self._disk_failures.survives
        self.fetch_sessions = FetchSessions(
            environment.random,
            self.settings.number("max.incremental.fetch.session.cache.slots"),
            partitions_max(self.settings.number("queued.max.request.bytes")),
        )
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
        """Bring back what is in the directories, part by part: each needs those before it."""
        directories, disk = self.log_directories, environment.disk

        def new_id() -> str:
            return uuid_text(environment.random.uuid())

        await self._take_identity(environment, new_id)
        own = read_own_checkpoint(disk, directories.home)
        state = self._read_journal(disk, own, new_id)
        was_clean = directories.take_clean_shutdown()
        self._configure(state)
        replayed = replay_write_ahead(disk, directories, state)
        is_member = self.membership is not None
        left = left_by_last_stop(directories, replayed, own, was_clean=was_clean, is_member=is_member)
        if state.last_leader_epoch >= 0:
            say_what_is_missing(directories, own, replayed, was_clean=was_clean)
        opening = self._opening(disk, state, left)
        self.durability = Durability(
            disk, directories, self.survives, number=replayed.next_number, has_decisions=has_decisions
        )
        await self._open_logs(environment, opening, state, own)
        boot_id = disk.boot_id()
        lost_power = not was_clean and boot_id != state.boot_id
        if lost_power and not is_member:
            cut_back_decisions(self.topics, left)
        opening.forget()
        self._find_others(state)
        self._make_coordinators(environment.random)
        await self._coordinate_alone()
        if not was_clean or own is None:
            # From now on the logs' own files vouch for what is in them.
            self.checkpoints.write_now()
        put_away(disk, replayed)
        ended = self._end_what_was_open(boot_id, was_clean=was_clean, lost_power=lost_power)
        self.start_report: StartReport = report_of(self.topics, was_clean=was_clean, hanging_transactions=ended)
        await self._begin(disk)

    async def _take_identity(self, environment: Environment, new_id: Callable[[], str]) -> None:
        """Know the cluster, and which broker of it this one is."""
        self.membership = None
        if environment.zookeeper is not None and environment.network is not None:
            # A broker that is alone starts without all of it.
            from oncelog.cluster import beginning

            self.membership = beginning.new_membership(
                self, environment.zookeeper, environment.network, environment.random
            )
        directories, cluster_id = self.log_directories, None
        if self.membership is not None:
            cluster_id = await self.membership.cluster_id(new_id() if directories.identity() is None else None)
        self.cluster_id, self.node_id = take_identity(directories, self.settings, new_id, cluster_id)
        if self.membership is not None:
            await self.membership.learn_settings()

    def _read_journal(self, disk: Disk, own: OwnCheckpoint | None, new_id: Callable[[], str]) -> JournalState:
        """What the journal says, and the directories as it knows them."""
        directories, is_member = self.log_directories, self.membership is not None
        self._journal = Journal(disk, directories.home, self.fail)
        state = read_journal(self._journal, 0 if own is None else own.journal_bytes)
        check_kind(state, directories.home, is_in_cluster=is_member)
        find_partitions(directories, state, self._journal.path, is_member=is_member)
        paths = directories.claim(self.cluster_id, self.node_id, new_id)
        if paths != state.log_directories:
            self._journal.append_now(LogDirectoriesNamed(paths=paths))
        return state

    def _configure(self, state: JournalState) -> None:
        """Take what was set while a broker ran before."""
        self.changes = Changes(self._journal)
        if self.membership is None:
            configs = state.broker_configs
            self.settings.configure(SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG, configs.get("", {}))
            self.settings.configure(SettingSource.DYNAMIC_BROKER_CONFIG, configs.get(str(self.node_id), {}))
        self.group_configs = GroupConfigs(self.settings, state.group_configs)
        self.leader_epoch = state.last_leader_epoch + 1
        self.features.load(state.features, state.features_epoch)

    def _opening(self, disk: Disk, state: JournalState, left: LeftByLastStop) -> LogOpening:
        is_member = self.membership is not None
        return LogOpening(
            disk,
            self.clock,
            self.log_directories,
            NO_LEADER_EPOCH if is_member else self.leader_epoch,
            state.compacted,
            left,
            self.survives,
            is_replica=is_member,
        )

    async def _open_logs(
        self, environment: Environment, opening: LogOpening, state: JournalState, own: OwnCheckpoint | None
    ) -> None:
        """Open the log of every partition, and note that a broker has started."""
        topics_open = self._make_topics(environment.random, opening, state)
        self.checkpoints: Checkpoints = Checkpoints(
            self.slices, environment.disk, self.log_directories, self.topics, self._journal, self.survives, own
        )
        self.moves = LogMoves(self, environment.disk, environment.random)
        for topic_opens in topics_open:
            await self._in_turns(topic_opens)
        opening.make_durable()
        self._journal.append_now(BrokerStarted(leader_epoch=self.leader_epoch))

    async def _coordinate_alone(self) -> None:
        """A member of a cluster coordinates what the controller says; a broker that is alone everything, from now on."""
        self.progress.reach(Readiness.LOGS)
        self.topics.on_offline = self._went_offline
        if self.membership is None:
            self.progress.reach(Readiness.METADATA)
            for name in (TRANSACTION_STATE, CONSUMER_OFFSETS):
                await self._in_turns(self._coordinator_partitions.lead(name))

    def _end_what_was_open(self, boot_id: str, *, was_clean: bool, lost_power: bool) -> int:
        """Carry out what was decided, and fence whoever wrote before a power cut; return how many transactions hung."""
        is_trusted = not lost_power or self.membership is not None
        self._boot = Boot(boot_id, self._journal, self.transactions, is_trusted=is_trusted)
        self.transactions.complete_prepared()
        if self.membership is not None:
            return 0
        start(self._boot.trust())
        return 0 if was_clean else hanging.end_after_start(self)

    async def _begin(self, disk: Disk) -> None:
        """Begin what goes on in the background, and serve."""
        self.disk_space.keep_back()
        self.memberships.begin()
        self._housekeeping = Housekeeping(self)
        self._cleaner = LogCleaner(self, disk)
        self._disk_failures.begin(self.topics, self._journal)
        self.moves.resume()
        if self.membership is None:
            self.progress.reach(Readiness.COORDINATORS)
        else:
            await self.membership.join(self._endpoints, text_of(self.settings.value("broker.rack")))

    def _find_others(self, state: JournalState) -> None:
        """Who gives out producer ids, and who leads what."""
        if self.membership is None:
            blocks = ReservedBlocks(self._journal, state.reserved_producer_ids)
            self.producer_ids = ProducerIds(blocks.next_block, blocks.first(), blocks.skip)
            self.known_brokers = OneBroker(self)
        else:
            from oncelog.cluster import beginning

            beginning.know_the_others(self, self.membership, self.shared_topics)

    def _make_topics(self, random: Random, opening: LogOpening, state: JournalState) -> list[Iterator[None]]:
        """Know the topics that there are; return what opens the logs of each, one in each step."""
        departures = Departures(self, self._disk)
        if self.membership is None:
            self.own_topics = OwnTopics(
                self._journal,
                self.slices,
                random,
                self.leader_epoch,
                self.settings,
                opening.open,
                departures.before_deletion,
                departures.after_deletion,
                self._coordinator_partitions.follow_count,
                departures.delete_unopened,
                self.survives,
            )
            self.topics = self.own_topics
            return [self.own_topics.replay_created(record) for record in state.topics.values()]
        from oncelog.cluster import beginning

        self.topics = self.shared_topics = beginning.new_topics(
            self,
            self.membership,
            self._journal,
            opening.open,
            departures.before_leaving,
            departures.after_leaving,
            departures.delete_unopened,
            self.survives,
        )
        return beginning.opening(self.shared_topics, state.hosted)

    def _make_coordinators(self, random: Random) -> None:
        coordinator = transaction_coordinator(
            self.settings, internal_partition_count(self, TRANSACTION_STATE), self.features.transaction_version
        )
        self.session_guard = SessionGuard(self.settings, coordinator.ids)
        self.marker_senders = MarkerSenders(self)
        self._loads = Slices(self.clock)
        self.transactions: Transactions = Transactions(self, coordinator, self._loads)
        if self.membership is not None:
            self.verification = self.membership.verification(self.transactions)
            self.shared_topics.on_learned = self._coordinator_partitions.follow_count
        groups = group_coordinator(
            self.settings,
            self.group_configs,
            self.topics,
            internal_partition_count(self, CONSUMER_OFFSETS),
            stores_topic_ids=self.membership is not None,
        )
        unconfirmed = UnconfirmedRecords()
        group_partitions = GroupPartitions(self, groups, unconfirmed)
        self.group_elections = Elections(self, CONSUMER_OFFSETS, group_partitions, self._loads)
        group_log = GroupLog(self, groups, self.group_elections, unconfirmed)
        self.offsets: CommittedOffsets = CommittedOffsets(self, groups, group_log)
        if self.membership is not None:
            self.shared_topics.on_gone = self.offsets.forget_topic
        self.memberships: Memberships = Memberships(self, groups, group_log, random)

    def serve_at(self, endpoints: Sequence[Endpoint]) -> None:
        """Say where clients reach this broker, at each listener that they are told of; it is what Metadata answers."""
        self._endpoints = endpoints
        if not self.settings.is_in_cluster:
            self.view = Alone(self.node_id, endpoints, text_of(self.settings.value("broker.rack")))

    def new_authenticator(self, security: ListenerSecurity, complete: Callable[[str], None]) -> SaslAuthenticator:
        """For a connection to a listener with SASL: it serves it until `complete` is called, with the user's name."""
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
            if self._boot.is_trusted:
                mark_clean_shutdown(self.log_directories)
        self.log_directories.release()

    def _went_offline(self, partition: Partition) -> None:
        self._coordinator_partitions.went_offline(partition)
        if self.membership is not None:
            self.membership.went_offline(partition)
