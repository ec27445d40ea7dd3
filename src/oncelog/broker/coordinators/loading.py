"""Bringing a broker back to where it was: its topics from the journal, the coordinators from their own logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from oncelog import transactions
from oncelog.broker.coordinators.group_log import Recorded, UnconfirmedRecords
from oncelog.broker.storage.journal import (
    BecameMember,
    BootTrusted,
    BrokerConfigured,
    BrokerStarted,
    FeatureFinalized,
    GroupConfigured,
    Journal,
    LogDirectoriesNamed,
    LogDirectoryFailed,
    MetadataRecord,
    ProducerIdsReserved,
    ReplicasHosted,
    ReplicasLeft,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
)
from oncelog.broker.storage.partition import Partition
from oncelog.environment import DiskError
from oncelog.groups import GroupCoordinator, GroupRecord
from oncelog.log import LogDirectories, PartitionKey, ScannedBatch, Standing
from oncelog.records import BatchHeader, ControlType, Record, RecordsError, decode_batch, read_control
from oncelog.records.kept import body_of, keyed_records
from oncelog.transactions import TransactionCoordinator, TransactionRecord
from oncelog.wire import WireError

logger = logging.getLogger("oncelog.broker")

R = TypeVar("R")

BATCHES_OF_A_STEP = 250


@dataclass(slots=True)
class HostedReplicas:
    topic: str
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True)
class JournalState:
    """The journal's records, replayed: topics by name as they are now, changed settings by broker id and by group, and the
    numbers that must never be used again.
    """

    topics: dict[str, TopicCreated] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    known_directories: set[str] = field(default_factory=set)
    """The ids of the log directories that the node has, or had."""
    absent: frozenset[str] = frozenset()
    """The directories that went offline since the last start, or were not named then."""
    made_without: dict[str | PartitionKey, frozenset[str]] = field(default_factory=dict)
    """The topics, and in a cluster the replicas, that were made while directories were absent, and which of those still are."""
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = 0
    last_leader_epoch: int = -1
    reserved_producer_ids: int = 0
    boot_id: str | None = None
    log_directories: dict[str, str] = field(default_factory=dict)
    hosted: dict[UUID, HostedReplicas] = field(default_factory=dict)
    """The replicas that this broker has in a cluster, by the ids of their topics."""
    left: set[tuple[str, int]] = field(default_factory=set)
    """The partitions of which it has none any more."""
    is_converted: bool = False
    """True if the broker was alone before it became a member of a cluster."""
    compacted: set[UUID] = field(default_factory=set)
    """The topics that were compacted once: offsets may be missing."""

    def standing(self, key: PartitionKey, directory_id: str) -> Standing:
        if key[0] in self.deleted or key in self.left:
            return Standing.LEFT_OVER
        was_absent = any(directory_id in self.made_without.get(made, ()) for made in (key[0], key))
        return Standing.DOUBTFUL if was_absent else Standing.CURRENT

    def has(self, key: PartitionKey, topic_id: UUID | None) -> bool:
        name, index = key
        topic = self.topics.get(name)
        if topic is not None and topic.uuid == topic_id:
            return index < topic.partition_count
        hosted = None if topic_id is None else self.hosted.get(topic_id)
        return hosted is not None and hosted.topic == name and index in hosted.partitions


def read_journal(journal: Journal, known_bytes: int) -> JournalState:
    """Raises DiskError for a journal that is damaged, or ends before `known_bytes`."""
    return journal_state(journal.load(known_bytes))


def journal_state(records: Iterable[MetadataRecord]) -> JournalState:
    state = JournalState()
    for record in records:
        _replay(state, record)
    return state


def _replay(state: JournalState, record: MetadataRecord) -> None:
    match record:
        case BrokerStarted():
            state.last_leader_epoch = record.leader_epoch
            _begin(state)
        case BootTrusted():
            state.boot_id = record.boot_id
        case LogDirectoryFailed():
            state.absent |= {record.directory_id}
        case LogDirectoriesNamed():
            state.log_directories = record.paths
            state.known_directories.update(record.paths)
        case TopicCreated():
            _note_compaction(state, record.topic_id, record.configs)
            state.topics[record.name] = record
            state.deleted.discard(record.name)
            _note_made(state, record.name)
        case TopicDeleted():
            state.topics.pop(record.name, None)
            state.deleted.add(record.name)
        case TopicGrown():
            _change_topic(state, record.topic_id, partition_count=record.partition_count)
        case TopicConfigured():
            _note_compaction(state, record.topic_id, record.configs)
            _change_topic(state, record.topic_id, configs=record.configs)
        case ReplicasHosted():
            hosted = state.hosted.setdefault(UUID(record.topic_id), HostedReplicas(record.topic))
            hosted.partitions.update(record.partitions)
            state.left.difference_update((record.topic, index) for index in record.partitions)
            _note_made(state, *((record.topic, index) for index in record.partitions))
        case ReplicasLeft():
            _leave(state, UUID(record.topic_id), record.partitions)
            state.left.update((record.topic, index) for index in record.partitions)
        case BecameMember():
            _become_member(state)
        case BrokerConfigured():
            state.broker_configs[record.broker_id] = record.configs
        case GroupConfigured():
            state.group_configs[record.group] = record.configs
        case FeatureFinalized():
            state.features[record.name] = record.level
            state.features_epoch += 1
        case ProducerIdsReserved():
            state.reserved_producer_ids = record.next_producer_id


def _begin(state: JournalState) -> None:
    """A start finds every directory that is named. What an absent one has stays as it is, for as long as it is absent."""
    state.absent = frozenset(state.known_directories.difference(state.log_directories))
    kept = {key: absent & state.absent for key, absent in state.made_without.items()}
    state.made_without = {key: absent for key, absent in kept.items() if absent}


def _note_made(state: JournalState, *made: str | PartitionKey) -> None:
    if state.absent:
        state.made_without.update(dict.fromkeys(made, state.absent))


def _become_member(state: JournalState) -> None:
    """Forget what ZooKeeper keeps from now on for a member of a cluster."""
    for topic in state.topics.values():
        state.hosted[topic.uuid] = HostedReplicas(topic.name, set(range(topic.partition_count)))
    state.topics.clear()
    # Another broker may make a topic of the same name.
    state.deleted.clear()
    state.broker_configs.clear()
    state.features.clear()
    state.features_epoch = 0
    state.reserved_producer_ids = 0
    state.is_converted = True


def _leave(state: JournalState, topic_id: UUID, partitions: Iterable[int]) -> None:
    """An id of which there is nothing any more may come back under another name."""
    hosted = state.hosted[topic_id]
    hosted.partitions.difference_update(partitions)
    if not hosted.partitions:
        del state.hosted[topic_id]


def _note_compaction(state: JournalState, topic_id: str, configs: Mapping[str, str]) -> None:
    if "compact" in configs.get("cleanup.policy", ""):
        state.compacted.add(UUID(topic_id))


def _change_topic(state: JournalState, topic_id: str, **changes: Any) -> None:
    """A topic that was deleted in the meantime is not there any more."""
    for name, topic in state.topics.items():
        if topic.topic_id == topic_id:
            state.topics[name] = topic._replace(**changes)
            return


def find_partitions(
    directories: LogDirectories, state: JournalState, journal_path: str, *, are_replicas: bool = False
) -> None:
    """Find every partition that the journal knows. Raises DiskError if one is missing, in two places, or not known."""
    directories.find_partitions(state)
    partitions = [(topic.name, index) for topic in state.topics.values() for index in range(topic.partition_count)]
    partitions += [(one.topic, index) for one in state.hosted.values() for index in one.partitions]
    unknown = directories.made_besides(partitions)
    if unknown or (state.last_leader_epoch < 0 and directories.were_in_use()):
        raise DiskError(
            f"{journal_path} is damaged: it knows nothing of {unknown or 'any start'}, and the log directories do: "
            "restore it from a copy"
        )
    directories.check_complete(partitions, state.log_directories, are_replicas=are_replicas)
    if directories.begun_anew:
        logger.warning(
            "%d replicas are begun anew and fetched from other brokers: the log directory that had them is empty now",
            len(directories.begun_anew),
        )


@contextmanager
def not_cleaned(partition: Partition) -> Iterator[None]:
    """While the segments of a log are read one by one, no others take their place."""
    log = partition.log
    log.compaction.pause()
    try:
        yield
    finally:
        log.compaction.resume()


def load_transactions(partition: Partition, coordinator: TransactionCoordinator) -> Iterator[None]:
    """Replay a partition of the transaction log, in short steps: of each transactional id the last record counts.

    Nothing is replayed before all of it has been read. Raises DamagedLogError.
    """
    records = yield from _last_records(partition, coordinator.partition_for)
    for record in () if partition.is_offline else records:
        coordinator.ids.replay(partition.index, record)


def _last_records(
    partition: Partition, home_of: Callable[[str], int]
) -> Generator[None, None, list[TransactionRecord]]:
    """Return the records to replay of a partition of the transaction log. Raises DamagedLogError.

    It decodes little but keys: a record that a later one replaces is skipped.
    """
    last: dict[bytes | None, tuple[ScannedBatch, int]] = {}
    try:
        for number, batch in enumerate(partition.log.batches()):
            if number % BATCHES_OF_A_STEP == 0:
                yield
            # No transaction writes here: a marker is what an administrator had written, and says nothing.
            if batch.header.is_control:
                continue
            body = body_of(batch.header, batch.data, batch.position_in_data)
            for place, keyed in enumerate(keyed_records(batch.header, body)):
                last[keyed.key] = batch, place
        found: list[TransactionRecord | None] = []
        for number, (batch, place) in enumerate(last.values()):
            if number % BATCHES_OF_A_STEP == 0:
                yield
            found.append(transactions.decode(_records_of(batch)[place]))
    except (RecordsError, WireError):
        found = [None]
    records = [one for one in found if one is not None and home_of(one.transactional_id) == partition.index]
    return records if len(records) == len(found) else _readable_records(partition, home_of)


def _readable_records(partition: Partition, home_of: Callable[[str], int]) -> list[TransactionRecord]:
    """Every record that means something, where some do not: then an earlier one of the same key counts."""
    return [
        record
        for batch in partition.log.batches()
        if not batch.header.is_control
        for raw, record in _readable(partition, batch, transactions.decode)
        if _belongs(partition, home_of(record.transactional_id), raw)
    ]


class _Replayed(NamedTuple):
    """A record of the offsets topic, with the header of its batch and its own offset."""

    record: GroupRecord
    header: BatchHeader
    offset: int


class _Marker(NamedTuple):
    """How a transaction ended that has records here."""

    producer_id: int
    is_commit: bool
    offset: int


def load_offsets(
    partition: Partition,
    coordinator: GroupCoordinator,
    decode: Callable[[Record], GroupRecord | None],
    unconfirmed: UnconfirmedRecords,
) -> Generator[None, None, frozenset[str]]:
    """Replay a partition of the committed offsets, in short steps, with the markers that say which transactional ones count.

    Return the groups that it is about; `unconfirmed` takes note of what is above the high watermark. Raises DamagedLogError.
    """
    high_watermark = partition.log.high_watermark
    steps = yield from _offset_steps(partition, coordinator.partition_for, decode)
    groups_found: set[str] = set()
    for number, step in enumerate(() if partition.is_offline else steps):
        if number % BATCHES_OF_A_STEP == 0:
            yield
        if isinstance(step, _Marker):
            ended = coordinator.replay_marker(partition.index, step.producer_id, step.is_commit)
            changed = {group: Recorded.OFFSETS for group, _ in ended}
        else:
            header = step.header
            coordinator.replay(partition.index, step.record, header.producer_id, header.is_transactional, step.offset)
            groups_found.add(step.record.group)
            changed = {step.record.group: Recorded.by(step.record)}
        if step.offset >= high_watermark:
            for group, kind in changed.items():
                unconfirmed.note(partition.index, group, kind, step.offset + 1)
    return frozenset(groups_found)


def _offset_steps(
    partition: Partition, home_of: Callable[[str], int], decode: Callable[[Record], GroupRecord | None]
) -> Generator[None, None, list[_Replayed | _Marker]]:
    """Return the steps to replay of a partition of the offsets topic. Raises DamagedLogError.

    Markers whose records are compacted away, nearly all there is in a log of transactions, are skipped.
    """
    steps: list[_Replayed | _Marker] = []
    open_producers: set[int] = set()
    for number, batch in enumerate(partition.log.batches()):
        if number % BATCHES_OF_A_STEP == 0:
            yield
        header = batch.header
        if not header.is_control:
            found: Iterator[tuple[Record, GroupRecord]] = _readable(partition, batch, decode)
            for raw, record in found:
                if _belongs(partition, home_of(record.group), raw):
                    steps.append(_Replayed(record, header, raw.offset))
            if header.is_transactional:
                open_producers.add(header.producer_id)
        elif header.producer_id in open_producers:
            marker = read_control(batch.data, batch.position_in_data)
            if marker is not None:
                open_producers.remove(header.producer_id)
                steps.append(_Marker(header.producer_id, marker.control is ControlType.COMMIT, header.base_offset))
    return steps


def _readable(
    partition: Partition, batch: ScannedBatch, decode: Callable[[Record], R | None]
) -> Iterator[tuple[Record, R]]:
    """The records of a batch that mean something to a coordinator.

    An administrator may write to these topics too (Produce as `__admin_client`). What cannot be read is left out and said:
    it must not keep the broker from starting.
    """
    try:
        raws = _records_of(batch)
    except RecordsError as error:
        logger.error("%s: a batch is left out: %s", partition, error)
        return
    for raw in raws:
        try:
            record = decode(raw)
        except WireError as error:
            logger.error("%s: the record at offset %d is left out: %s", partition, raw.offset, error)
        else:
            if record is not None:
                yield raw, record


def _records_of(batch: ScannedBatch) -> list[Record]:
    return decode_batch(batch.data, batch.position_in_data)


def _belongs(partition: Partition, home: int, raw: Record) -> bool:
    if partition.index != home:
        logger.error("%s: the record at offset %d is left out: it belongs to partition %d", partition, raw.offset, home)
    return partition.index == home
