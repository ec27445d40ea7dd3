"""The broker: routes a request to its handler, parks the answer, owns the partitions and the coordinators.

It holds no rule of the protocol and touches no part of the machine: what it asks of the world comes in through
`Environment`, and bytes come and go through `receive`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from types import CoroutineType
from typing import Any
from uuid import UUID

from typing_extensions import Buffer

from oncelog.broker import request_log
from oncelog.broker.apis import APIS, ServedApi
from oncelog.broker.config.configuration import Settings, SettingSource
from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.config.setting import SettingError, text_of
from oncelog.broker.coordinators import hanging
from oncelog.broker.coordinators.group_log import GroupLog
from oncelog.broker.coordinators.loading import (
    find_partitions,
    load_offsets,
    load_transactions,
    read_journal,
)
from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.fetch_sessions import FetchSessions
from oncelog.broker.handlers import api_versions
from oncelog.broker.housekeeping import Housekeeping
from oncelog.broker.request import Peer, Request
from oncelog.broker.slices import Slices, beside
from oncelog.broker.storage.auto_creation import internal_partition_count
from oncelog.broker.storage.changes import Changes
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.cleaner import LogCleaner
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.journal import (
    FILE_NAME,
    BootTrusted,
    BrokerStarted,
    Journal,
    LogDirectoriesNamed,
    TopicCreated,
)
from oncelog.broker.storage.partition import UnopenedLog
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topic, Topics, log_config
from oncelog.coordination import Parked, Task, begin, start
from oncelog.environment import Clock, Disk, DiskError, Random, Workers
from oncelog.groups import GroupCoordinator, MembershipLimits
from oncelog.log import (
    PARTITION_METADATA,
    DamagedLogError,
    LogConfig,
    LogDigest,
    LogDirectories,
    LogPoints,
    PartitionLog,
    Replayed,
    delete_partition,
    read_own_checkpoint,
    replay,
    uuid_text,
    write_topic_id,
)
from oncelog.transactions import TransactionCoordinator
from oncelog.wire import (
    RequestHeader,
    TooManyItemsError,
    WireError,
    decode_request,
    encode_answer,
    message_class,
    read_request_header,
    skip_tagged_fields,
)

logger = logging.getLogger("oncelog.broker")

Answer = list[Buffer] | None
ITEMS_AT_ONCE = 2000
"""A request with more of them is read, and its answer written, beside the event loop."""
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
    """One node. `on_failure` hears of a disk that fails, or of a bug: the broker answers nothing any more; stop it then."""

    def __init__(
        self,
        environment: Environment,
        log_directories: Sequence[str],
        settings: Mapping[str, str],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """Take the directories and bring back what is in them. Raises DirectoryInUseError, DiskError and SettingError."""
        self.settings = Settings(settings)
        self.clock = environment.clock
        self.slices = Slices(environment.clock)
        self.workers = environment.workers
        self._disk = environment.disk
        self._report_failure = on_failure
        self._has_failed = False
        self.host = ""
        self.port = 0
        self.features = {TRANSACTION_FEATURE: TRANSACTION_VERSION}
        self.highest_features = dict(self.features)
        self.features_epoch = 0
        self.apis = APIS
        self.log_directories = LogDirectories(environment.disk, log_directories, FILE_NAME)
        try:
            self._load(environment)
        except BaseException:
            self.log_directories.release()
            raise

    def _load(self, environment: Environment) -> None:
        directories = self.log_directories
        self._take_identity(environment.random)
        self._journal = Journal(environment.disk, directories.home, self.fail)
        own = read_own_checkpoint(environment.disk, directories.home)
        state = read_journal(self._journal, 0 if own is None else own.journal_bytes)
        self._aborted = None if own is None else own.aborted
        self._was_compacted = state.compacted
        find_partitions(directories, state, self._journal.path)
        paths = directories.claim(self.cluster_id, self.node_id, lambda: uuid_text(environment.random.uuid()))
        if paths != state.log_directories:
            self._journal.append_now(LogDirectoriesNamed(paths=paths))
        was_clean = directories.take_clean_shutdown()
        self._was_clean = was_clean
        self._recovery_points = directories.recovery_points()
        self._log_start_offsets = directories.log_start_offsets()
        self._cleaned_offsets = directories.cleaned_offsets()
        self.changes = Changes(self._journal)
        self.settings.configure(SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG, state.broker_configs.get("", {}))
        self.settings.configure(SettingSource.DYNAMIC_BROKER_CONFIG, state.broker_configs.get(str(self.node_id), {}))
        self.group_configs = GroupConfigs(self.settings, state.group_configs)
        self.leader_epoch = state.last_leader_epoch + 1
        self.features |= state.features
        self.features_epoch = state.features_epoch
        replayed = self._replay_write_ahead(state.topics.values())
        self._durable_ends = replayed.durable_ends
        self.durability = Durability(
            environment.disk, directories.home, self.fail, number=replayed.next_number, has_decisions=_has_decisions
        )
        self.fetch_sessions = FetchSessions(
            environment.random, self.settings.number("max.incremental.fetch.session.cache.slots")
        )
        self.topics = Topics(
            self._journal,
            self.slices,
            environment.random,
            self.leader_epoch,
            self.settings,
            self._open_log,
            self._before_deletion,
            self._after_deletion,
            self._follow_partition_count,
            self._delete_unopened,
        )
        self.checkpoints = Checkpoints(
            self.slices, environment.disk, directories, self.topics, self._journal, self.fail
        )
        for record in state.topics.values():
            self.topics.replay_created(record)
        self._check_epochs()
        self._journal.append_now(BrokerStarted(leader_epoch=self.leader_epoch))
        self.producer_ids = ProducerIds(self._journal, state.reserved_producer_ids)
        boot_id = environment.disk.boot_id()
        lost_power = not was_clean and boot_id != state.boot_id
        if lost_power:
            self._cut_back_decisions(replayed)
        self._recovery_points = {}
        self._durable_ends = {}
        self._aborted = None
        self._log_start_offsets = {}
        self._cleaned_offsets = {}
        self._was_clean = True
        self._load_coordinators(environment.random)
        if not was_clean or own is None:
            # From now on the logs' own files vouch for what is in them.
            self.checkpoints.write_now()
        for path in replayed.files:
            if replayed.is_whole:
                environment.disk.remove(path)
            else:
                # For whoever repairs the log that is too short for what is in here.
                environment.disk.rename(path, path + KEPT)
        self.transactions.complete_prepared()
        self._is_trusted = not lost_power
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
        self.memberships.begin()
        self._housekeeping = Housekeeping(self)
        self._cleaner = LogCleaner(self, environment.disk)

    def _replay_write_ahead(self, topics: Iterable[TopicCreated]) -> Replayed:
        """Give the logs back what they had lost to a power cut, before they are opened."""
        names = {record.uuid: record.name for record in topics}

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

    def _cut_back_decisions(self, replayed: Replayed) -> None:
        """Forget every decision that was not durable: what it is about may be lost, and nobody was told of it."""
        for partition in self.topics.partitions():
            log = partition.log
            if _has_decisions(log):
                vouched = replayed.durable_ends.get((log.topic_id, log.partition), 0)
                try:
                    log.truncate_to(max(vouched, self._recovery_points.get((partition.topic, partition.index), 0)))
                except DamagedLogError as damage:
                    self.topics.take_offline(partition, damage)

    def _load_coordinators(self, random: Random) -> None:
        number = self.settings.number
        self.transactions: Transactions = Transactions(
            self,
            TransactionCoordinator(
                internal_partition_count(self, TRANSACTION_STATE),
                transaction_version=self.features[TRANSACTION_FEATURE],
                timeout_max_ms=number("transaction.max.timeout.ms"),
                id_expiration_ms=number("transactional.id.expiration.ms"),
            ),
        )
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
        group_log = GroupLog(self, groups)
        self.offsets: CommittedOffsets = CommittedOffsets(self, groups, group_log)
        self.memberships: Memberships = Memberships(self, groups, group_log, random)
        load_transactions(self)
        load_offsets(self)

    def _take_identity(self, random: Random) -> None:
        """Be the node whose directories these are. Raises SettingError if the settings name another."""
        found = self.log_directories.identity()
        if found is None and self.log_directories.were_in_use():
            raise DiskError(
                f"{self.log_directories.home}/meta.properties is missing, and the directory was in use: restore it from a copy"
            )
        self.cluster_id = uuid_text(random.uuid()) if found is None else found.cluster_id
        self.node_id = self.settings.number("node.id") if found is None else found.node_id
        asked = self.settings.given.get("node.id", self.node_id)
        if asked != self.node_id:
            raise SettingError(
                f"node.id={asked} is not allowed: {self.log_directories.home} is that of node {self.node_id}"
            )
        self.settings.name_node(self.node_id)

    def _open_log(self, topic: Topic, index: int, config: LogConfig) -> PartitionLog | UnopenedLog:
        key = (topic.name, index)
        found = self.log_directories.partition_path(topic.name, index)
        path = found or self.log_directories.place(topic.name, index)
        aborted = None
        if self._aborted is not None:
            aborted = self._aborted.get((topic.topic_id, index), LogDigest(self._recovery_points.get(key, 0)))
        cleaned_offset = self._cleaned_offsets.get(key)
        if topic.topic_id in self._was_compacted or cleaned_offset is not None:
            config = replace(config, has_gaps=True)
        recovery_point, log_start_offset = self._recovery_points.get(key, 0), self._log_start_offsets.get(key, 0)
        if aborted is not None:
            # It is written first, and a log never begins earlier again.
            log_start_offset = max(log_start_offset, aborted.log_start_offset)
        try:
            log = PartitionLog.open(
                self._disk,
                self.clock,
                path,
                topic.name,
                index,
                config,
                was_clean=self._was_clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                leader_epoch=self.leader_epoch,
                topic_id=topic.topic_id,
                aborted=aborted,
                durable_end=self._durable_ends.get((topic.topic_id, index), 0),
            )
        except DamagedLogError as damage:
            logger.error("%s-%d is offline: %s", topic.name, index, damage)
            points = LogPoints(recovery_point, log_start_offset, max(recovery_point, log_start_offset), cleaned_offset)
            return UnopenedLog(path, topic.topic_id, points, aborted, str(damage))
        _log_cut(log)
        if cleaned_offset is not None:
            log.cleaned_offset = cleaned_offset
        if found is None:
            write_topic_id(self._disk, f"{path}/{PARTITION_METADATA}", topic.topic_id)
        return log

    async def _trust(self, boot_id: str, fenced: Parked[None] | None) -> None:
        """Write down that nothing since this boot is lost; after a power cut, once every producer is fenced."""
        if fenced is not None:
            await fenced
            if not self.transactions.knows_every_id():
                # Those whose log is damaged are fenced by the start that can read it: until then no stop is a clean one.
                return
        self._is_trusted = True
        await self._journal.write([BootTrusted(boot_id=boot_id)])

    def serve_at(self, host: str, port: int) -> None:
        """Say where clients reach this broker; it is what Metadata answers."""
        self.host = host
        self.port = port

    def receive(self, connection: Peer, frame: memoryview) -> Answer | Parked[Answer]:
        """Take one request, without its length, and give its answer, with its length; later if the request has to wait.

        The answer is None for a request that has none. A request that waits is a task, which whoever sent it may end.
        Raises WireError for bytes that are no request of a served version.
        """
        if self._has_failed:
            return Parked()
        header = read_request_header(frame)
        api = APIS.get(header.api_key)
        if api is None or not api.minimum <= header.version <= api.maximum:
            return self._refuse(header)
        request_class = message_class(header.api_key, header.version, "request")
        position = skip_tagged_fields(frame, header.end) if request_class.__flexible__ else header.end
        arrived_ms = self.clock.monotonic_ms()
        try:
            body = decode_request(request_class, frame, position, ITEMS_AT_ONCE)
        except TooManyItemsError:
            request = Request(header.api_key, header.version, header.client_id, None, connection, arrived_ms)
            decode = partial(_decoded, request_class, frame, position)
            return start(self._receive_large(api, request, header.correlation_id, decode))
        request = Request(header.api_key, header.version, header.client_id, body, connection, arrived_ms)
        return self._handle(api, request, header.correlation_id)

    async def _receive_large(
        self, api: ServedApi, request: Request, correlation_id: int, decode: Callable[[], Any]
    ) -> Answer:
        """Read a request of many items, and write its answer, beside those that are served meanwhile."""
        body = await beside(self.workers, decode, is_long=False)
        if isinstance(body, WireError):
            request.connection.close(str(body))
            return None
        request.body = body
        answer = api.handle(self, request)
        if isinstance(answer, CoroutineType):
            answer = await answer
        return await self._encoded_beside(api, request, correlation_id, answer)

    async def _encoded_beside(self, api: ServedApi, request: Request, correlation_id: int, body: Any) -> Answer:
        encode = partial(self._encoded, api, request, correlation_id, body)
        return await beside(self.workers, encode, is_long=False)

    def _handle(self, api: ServedApi, request: Request, correlation_id: int) -> Answer | Parked[Answer]:
        try:
            answer = api.handle(self, request)
            if isinstance(answer, CoroutineType):
                answer = begin(answer)
                if isinstance(answer, Task):
                    return start(self._answered(api, request, correlation_id, answer))
        except DiskError as error:
            self.fail(error)
            return Parked()
        except Exception as bug:
            bug.add_note(f"in {api.name} v{request.version}")
            raise
        return self._encoded(api, request, correlation_id, answer)

    async def _answered(self, api: ServedApi, request: Request, correlation_id: int, handling: Task[Any]) -> Answer:
        try:
            body = await handling
        finally:
            handling.end()
        if not _has_many_items(body):
            return self._encoded(api, request, correlation_id, body)
        return await self._encoded_beside(api, request, correlation_id, body)

    def _encoded(self, api: ServedApi, request: Request, correlation_id: int, body: Any) -> Answer:
        if request_log.is_logged():
            request_log.log_answer(api.name, request, body, self.clock.monotonic_ms() - request.arrived_ms)
        try:
            return None if body is None else encode_answer(api.key, request.version, correlation_id, body)
        except Exception as bug:
            bug.add_note(f"in the answer to {api.name} v{request.version}")
            raise

    def _refuse(self, header: RequestHeader) -> Answer:
        if header.api_key == api_versions.API_KEY:
            return encode_answer(header.api_key, 0, header.correlation_id, api_versions.unsupported_version(self))
        raise WireError(f"API {header.api_key} is not served in version {header.version}")

    def finalize_feature(self, name: str, level: int) -> None:
        """Set the level of a feature; the journal says so already."""
        logger.info("feature %s has level %d", name, level)
        self.features[name] = level
        self.features_epoch += 1
        if name == TRANSACTION_FEATURE:
            self.transactions.coordinator.transaction_version = level

    @property
    def rack(self) -> str | None:
        return text_of(self.settings.value("broker.rack"))

    def disk_space(self, path: str) -> tuple[int, int]:
        """The bytes of the disk that a log directory is on, and those that are left. Raises DiskError."""
        return self._disk.space(path)

    def fail(self, error: BaseException) -> None:
        """Stop answering: the disk does not keep what it was given, or a bug has come to light."""
        if not self._has_failed:
            self._has_failed = True
            self._report_failure(error)

    def stop(self) -> None:
        """Close every log and leave the directories so that the next start has nothing to repair. Blocks on the disk."""
        self._housekeeping.stop()
        self._cleaner.stop()
        self.memberships.stop()
        self.slices.stop()
        if not self._has_failed:
            for partition in self.topics.every_partition():
                if partition.unopened is None:
                    partition.log.close()
            self.checkpoints.write_now()
            self.durability.close()
            self._journal.close()
            if self._is_trusted:
                self.log_directories.mark_clean_shutdown()
        self.log_directories.release()

    def _follow_partition_count(self, topic: Topic) -> None:
        """Where a group or a transactional id belongs depends on how many partitions its topic has, whoever made that."""
        if topic.name == TRANSACTION_STATE:
            self.transactions.coordinator.partition_count = len(topic.partitions)
        elif topic.name == CONSUMER_OFFSETS:
            self.offsets.coordinator.partition_count = len(topic.partitions)

    def _before_deletion(self, topic: Topic) -> Parked[None]:
        """A topic made anew under this name must not be held to the offsets and recovery points of the one that goes."""
        self.offsets.forget_partitions(topic.name, len(topic.partitions))
        return self.checkpoints.write()

    def _delete_unopened(self, topic: Topic, index: int, log: UnopenedLog) -> None:
        if self._disk.exists(log.directory):
            delay_ms = log_config(self.settings, topic.name, topic.values).file_delete_delay_ms
            delete_partition(self._disk, self.clock, log.directory, topic.name, index, topic.topic_id, delay_ms)

    def _after_deletion(self, topic: Topic) -> Parked[None]:
        """Release when no power cut can bring the files back, for a topic made anew would take them for its own.

        At home what the journal says next is durable no earlier than the new names of the files; the disk of another
        directory knows nothing of the journal, and a checkpoint makes durable which names are in its directory.
        """
        self.transactions.go_on()
        was_elsewhere = self.log_directories.forget(topic.name, len(topic.partitions))
        return self.checkpoints.write() if was_elsewhere else Parked.ready(None)


def _log_cut(log: PartitionLog) -> None:
    found = log.recovery
    if found.indexes_rebuilt:
        logger.warning(
            "%s: %d transaction indexes are made again, for they are damaged", log.name, found.indexes_rebuilt
        )
    if found.fault is not None:
        logger.warning(
            "%s: %d bytes are cut off, which were not said to be durable: %s at offset %d, byte %d: %s",
            log.name,
            found.bytes_cut,
            found.fault_path,
            found.fault.offset,
            found.fault.position,
            found.fault.reason,
        )


def _has_decisions(log: PartitionLog) -> bool:
    return log.name == f"{TRANSACTION_STATE}-{log.partition}"


def _decoded(request_class: Any, frame: memoryview, position: int) -> Any:
    try:
        return decode_request(request_class, frame, position)
    except WireError as error:
        return error


def _has_many_items(body: Any) -> bool:
    """Whether writing an answer would keep everybody waiting. Most arrays in arrays are of requests that are large themselves."""
    if body is None:
        return False
    answer_class: Any = type(body)
    found = (getattr(body, name) for name in _arrays(answer_class))
    return any(isinstance(items, tuple) and len(items) > ITEMS_AT_ONCE for items in found)


@cache
def _arrays(answer_class: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(answer_class) if "tuple" in str(one.type))
