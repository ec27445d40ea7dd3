"""The broker: puts its parts together, brings back what is on disk, and stops.

It holds no rule of the protocol and touches no part of the machine: what it asks of the world comes in through
`Environment`, and bytes come and go through `receive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.access import Access
from oncelog.broker.after_a_crash import (
    has_decisions,
    left_by_last_stop,
    put_away,
    replay_write_ahead,
)
from oncelog.broker.apis import ServedApi
from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.coordinator_partitions import CoordinatorPartitions
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.group_log import GroupLog, UnconfirmedRecords
from oncelog.broker.coordinators.group_partitions import GroupPartitions, group_coordinator
from oncelog.broker.coordinators.hanging import HangingTransactions
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.loading import JournalState, read_journal
from oncelog.broker.coordinators.marker_senders import MarkerSenders
from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.coordinators.session_guard import SessionGuard
from oncelog.broker.coordinators.transaction_log import transaction_coordinator
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.coordinators.verification import PartitionVerification
from oncelog.broker.departures import Departures
from oncelog.broker.dispatch import Dispatch
from oncelog.broker.features import FinalizedFeatures
from oncelog.broker.fetch_sessions import FetchSessions, partitions_max
from oncelog.broker.housekeeping import Housekeeping, LogUpkeep
from oncelog.broker.metadata import BrokerParts, Crash, StorageParts
from oncelog.broker.readiness import Readiness, StartProgress
from oncelog.broker.request import Peer
from oncelog.broker.slices import Slices, Turn
from oncelog.broker.starting import Environment, StartReport, report_of
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.cleaner import LogCleaner
from oncelog.broker.storage.disk_failures import DiskFailures
from oncelog.broker.storage.disk_space import DiskSpace
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.journal import (
    FILE_NAME,
    BrokerStarted,
    Changes,
    Journal,
    LogDirectoriesNamed,
)
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.opening import LogOpening, close_logs, mark_clean_shutdown, say_what_is_missing
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topics
from oncelog.broker.view import ClusterView
from oncelog.coordination import Promise, start
from oncelog.environment import Clock, Disk, DiskError, Random, Workers
from oncelog.log import (
    LogDirectories,
    OwnCheckpoint,
    read_own_checkpoint,
    uuid_text,
)

if TYPE_CHECKING:
    from oncelog.broker.authentication import SaslAuthenticator
    from oncelog.broker.config.listener_security import ListenerSecurity
    from oncelog.broker.config.listeners import Endpoint


class BrokerCore:
    """One node. `on_failure` hears of a disk that it cannot do without, or of a bug: it answers nothing any more; stop it then."""

    # Handlers take these parts by name.
    access: Access
    apis: Mapping[int, ServedApi]
    auto_creation: AutoTopicCreation
    changes: Changes
    checkpoints: Checkpoints
    clock: Clock
    cluster_id: str
    disk_space: DiskSpace
    durability: Durability
    features: FinalizedFeatures
    fetch_sessions: FetchSessions
    group_configs: GroupConfigs
    hanging: HangingTransactions
    known_brokers: KnownBrokers
    leader_epoch: int
    log_directories: LogDirectories
    marker_senders: MarkerSenders
    memberships: Memberships
    moves: LogMoves
    node_id: int
    offsets: CommittedOffsets
    progress: StartProgress
    session_guard: SessionGuard
    settings: Settings
    survives: Callable[[DiskError], bool]
    topics: Topics
    transactions: Transactions
    verification: PartitionVerification
    view: ClusterView
    workers: Workers

    producer_ids: ProducerIds

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
        self._coordinator_partitions = CoordinatorPartitions()
        self.access = Access(self.settings, own_principal)
        self.progress = StartProgress()
        self._turn = Turn(environment.clock) if in_turns else None
        self.log_directories = LogDirectories(environment.disk, log_directories, FILE_NAME)
        self._disk_failures = DiskFailures(self.log_directories, self._stop_answering)
        self.survives = self._disk_failures.survives
        self.metadata = environment.new_metadata(
            BrokerParts(
                self.settings,
                environment.clock,
                environment.random,
                self.slices,
                self.progress,
                self.log_directories,
                self._coordinator_partitions,
                self.survives,
            )
        )
        self.features = FinalizedFeatures(self.metadata.highest_features)
        self.apis = self.metadata.apis
        self.receive = Dispatch(
            (self, self.metadata),
            self.apis,
            self.access,
            environment.clock,
            environment.workers,
            self.progress,
            self.fail,
            lambda: self._has_failed,
        ).receive
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

        self.cluster_id, self.node_id = await self.metadata.identify(new_id)
        own = read_own_checkpoint(disk, directories.home)
        state = self._read_journal(disk, own, new_id)
        was_clean = directories.take_clean_shutdown()
        self._configure(state)
        replayed = replay_write_ahead(disk, directories, state)
        rules = self.metadata.log_rules(self.leader_epoch)
        left = left_by_last_stop(directories, replayed, own, rules.high_watermarks, was_clean=was_clean)
        if state.last_leader_epoch >= 0:
            say_what_is_missing(directories, own, replayed, was_clean=was_clean)
        opening = LogOpening(
            disk,
            self.clock,
            directories,
            rules.leader_epoch,
            state.compacted,
            left,
            self.survives,
            are_replicas=rules.are_replicas,
        )
        self.durability = Durability(
            disk, directories, self.survives, number=replayed.next_number, has_decisions=has_decisions
        )
        await self._open_logs(environment, opening, state, own)
        boot_id = disk.boot_id()
        crash = Crash(was_clean, not was_clean and boot_id != state.boot_id, boot_id)
        if crash.lost_power:
            self.metadata.forget_doubtful(left)
        opening.forget()
        self.metadata.open(self.node_id, state, self.checkpoints, self.durability)
        self.producer_ids = self.metadata.producer_ids
        self.known_brokers = self.metadata.known_brokers
        self._make_coordinators(environment.random)
        self.progress.reach(Readiness.LOGS)
        self.topics.on_offline = self._went_offline
        await self.metadata.lead(self._in_turns)
        if not was_clean or own is None:
            # From now on the logs' own files vouch for what is in them.
            self.checkpoints.write_now()
        put_away(disk, replayed)
        self.transactions.complete_prepared()
        ended = self.metadata.recover(crash, self.transactions, self.hanging.end_after_start)
        self.start_report: StartReport = report_of(self.topics, was_clean=was_clean, hanging_transactions=ended)
        await self._begin(disk)

    def _read_journal(self, disk: Disk, own: OwnCheckpoint | None, new_id: Callable[[], str]) -> JournalState:
        """Read the journal, and find the directories that it names."""
        directories = self.log_directories
        self._journal = Journal(disk, directories.home, self.fail)
        state = read_journal(self._journal, 0 if own is None else own.journal_bytes)
        self.metadata.find_partitions(state, self._journal.path)
        paths = directories.claim(self.cluster_id, self.node_id, new_id)
        if paths != state.log_directories:
            self._journal.append_now(LogDirectoriesNamed(paths=paths))
        return state

    def _configure(self, state: JournalState) -> None:
        """Take what was set while a broker ran before."""
        self.changes = Changes(self._journal)
        self.metadata.configure(state)
        self.group_configs = GroupConfigs(self.settings, state.group_configs)
        self.leader_epoch = state.last_leader_epoch + 1
        self.features.load(state.features, state.features_epoch)

    async def _open_logs(
        self, environment: Environment, opening: LogOpening, state: JournalState, own: OwnCheckpoint | None
    ) -> None:
        """Open the log of every partition, and note that a broker has started."""
        self._departures = Departures(self.clock, self.log_directories, self.settings, self._disk)
        parts = StorageParts(
            self._journal,
            self.changes,
            self.group_configs,
            self.leader_epoch,
            opening.open,
            self._departures,
        )
        topics_open = self.metadata.make_topics(parts, state)
        self.topics = self.metadata.topics
        self.checkpoints = Checkpoints(
            self.slices, environment.disk, self.log_directories, self.topics, self._journal, self.survives, own
        )
        self.moves = LogMoves(
            self.checkpoints,
            self.clock,
            self.durability,
            self.log_directories,
            self.topics,
            self.survives,
            environment.disk,
            environment.random,
        )
        for topic_opens in topics_open:
            await self._in_turns(topic_opens)
        opening.make_durable()
        self._journal.append_now(BrokerStarted(leader_epoch=self.leader_epoch))

    async def _begin(self, disk: Disk) -> None:
        """Begin what goes on in the background, and serve."""
        self.disk_space.keep_back()
        self.memberships.begin()
        self._housekeeping = Housekeeping(
            self.clock,
            self.settings,
            self.survives,
            self.disk_space,
            self.offsets,
            self.transactions,
            LogUpkeep(self.checkpoints, self.clock, self.durability, self.slices, self.topics),
            self.metadata.repeated_work(self.checkpoints),
        )
        self._cleaner = LogCleaner(
            self.checkpoints,
            self.clock,
            self.durability,
            self.settings,
            self.slices,
            self.topics,
            self.workers,
            self.survives,
            disk,
        )
        self._disk_failures.begin(self.topics, self._journal)
        self.moves.resume()
        await self.metadata.join()

    def _make_coordinators(self, random: Random) -> None:
        self.auto_creation = AutoTopicCreation(self.clock, self.settings, self.topics)
        self._loads = Slices(self.clock)
        self._make_group_coordinator(random)
        self._make_transaction_coordinator()
        self._coordinator_partitions.coordinate(self.topics, self.transactions, self.offsets, self.group_elections)
        self._departures.tell(self.checkpoints, self.moves, self.offsets, self.transactions)

    def _make_group_coordinator(self, random: Random) -> None:
        settings, topics, group_format = self.settings, self.topics, self.metadata.group_format
        groups = group_coordinator(
            settings,
            self.group_configs,
            topics,
            self.auto_creation.internal_partition_count(CONSUMER_OFFSETS),
            stores_topic_ids=group_format.stores_topic_ids,
        )
        unconfirmed = UnconfirmedRecords()
        partitions = GroupPartitions(topics, groups, unconfirmed, group_format.decode)
        self.group_elections = Elections(self.known_brokers, topics, CONSUMER_OFFSETS, partitions, self._loads)
        log = GroupLog(self.clock, self.known_brokers, settings, topics, groups, self.group_elections, unconfirmed)
        self.offsets = CommittedOffsets(self.clock, self.known_brokers, topics, groups, log)
        self.memberships = Memberships(self.clock, settings, self.fail, groups, log, random)
        partitions.tell(self.memberships, self.offsets)

    def _make_transaction_coordinator(self) -> None:
        coordinator = transaction_coordinator(
            self.settings,
            self.auto_creation.internal_partition_count(TRANSACTION_STATE),
            self.features.transaction_version,
        )
        self.session_guard = SessionGuard(self.settings, coordinator.ids)
        self.marker_senders = MarkerSenders(self.metadata.view.is_alive)
        self.transactions = Transactions(
            self.clock,
            self.durability,
            self.known_brokers,
            self.node_id,
            self.offsets,
            self.producer_ids,
            self.session_guard,
            self.topics,
            coordinator,
            self._loads,
        )
        self.hanging = HangingTransactions(
            self.known_brokers, self.leader_epoch, self.producer_ids, self.topics, self.transactions
        )
        self.verification = self.metadata.verification(self.transactions, self.session_guard)

    def serve_at(self, endpoints: Sequence[Endpoint]) -> None:
        """Say where clients reach this broker, at each listener that they are told of; it is what Metadata answers."""
        self.metadata.advertise(endpoints)
        self.view = self.metadata.view

    def new_authenticator(self, security: ListenerSecurity, complete: Callable[[str], None]) -> SaslAuthenticator:
        """For a connection to a listener with SASL: it serves it until `complete` is called, with the user's name."""
        # Only now: most brokers have no such listener.
        from oncelog.broker.authentication import SaslAuthenticator

        return SaslAuthenticator(
            self.clock,
            self._random,
            security.mechanisms,
            security.plain_users,
            self.metadata.scram_users,
            self.settings.number("connection.failed.authentication.delay.ms"),
            self.receive,
            complete,
        )

    def give_up_start(self) -> None:
        """Load no more, and leave the directories: cleanly, where all is loaded and only the controller has said nothing yet."""
        if self._loading.is_resolved and not self._has_failed:
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

    def hand_over(self) -> Promise[None]:
        """Before a stop: resolves when others lead what this broker leads, or when it is no use to wait for that any longer."""
        return Promise.ready(None) if self._has_failed else self.metadata.hand_over()

    def metrics(self) -> Iterator[str]:
        """Lines in the text format of Prometheus: those of a broker that has started."""
        return self.metadata.metrics()

    def stop(self) -> None:
        """Close every log and leave the directories so that the next start has nothing to repair. Blocks on the disk."""
        self._housekeeping.stop()
        self._cleaner.stop()
        self.moves.stop()
        self.memberships.stop()
        self.metadata.stop()
        self._loads.stop()
        self.slices.stop()
        # A checkpoint that another thread writes would replace the same files as the last one.
        self._disk.finish_background()
        if not self._has_failed:
            close_logs(self._disk, self.log_directories, self.topics, self.survives)
            self.checkpoints.write_now()
            self.durability.close()
            self._journal.close()
            if self.metadata.is_stop_clean:
                mark_clean_shutdown(self.log_directories)
        self.log_directories.release()

    def _went_offline(self, partition: Partition) -> None:
        self._coordinator_partitions.went_offline(partition)
        self.metadata.went_offline(partition)
