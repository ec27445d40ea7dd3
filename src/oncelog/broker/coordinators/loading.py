"""Bringing a broker back to where it was: its topics from the journal, the coordinators from their own logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from oncelog import groups, transactions
from oncelog.broker.storage.journal import (
    BootTrusted,
    BrokerConfigured,
    BrokerStarted,
    FeatureFinalized,
    GroupConfigured,
    Journal,
    LogDirectoriesNamed,
    MetadataRecord,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
)
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.environment import DiskError
from oncelog.groups import GroupRecord
from oncelog.log import DamagedLogError, LogDirectories
from oncelog.records import BatchHeader, ControlType, Record, RecordsError, batches, decode_batch, read_control
from oncelog.wire import WireError

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.topics import Topics

logger = logging.getLogger("oncelog.broker")

R = TypeVar("R")

READ_BYTES = 1024 * 1024


class Needs(Protocol):
    """What of the broker is needed here."""

    offsets: CommittedOffsets
    topics: Topics
    transactions: Transactions


@dataclass(slots=True)
class JournalState:
    """What the journal says: topics by name as if each was made as it is now, what was changed of the broker's settings
    by the id of the broker, what groups have of their own, and the numbers that must never be used again.
    """

    topics: dict[str, TopicCreated] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = 0
    last_leader_epoch: int = -1
    reserved_producer_ids: int = 0
    boot_id: str | None = None
    log_directories: dict[str, str] = field(default_factory=dict)
    compacted: set[UUID] = field(default_factory=set)
    """The topics that were compacted once: offsets may be missing."""


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
        case BootTrusted():
            state.boot_id = record.boot_id
        case LogDirectoriesNamed():
            state.log_directories = record.paths
        case TopicCreated():
            _note_compaction(state, record.topic_id, record.configs)
            state.topics[record.name] = record
            state.deleted.discard(record.name)
        case TopicDeleted():
            state.topics.pop(record.name, None)
            state.deleted.add(record.name)
        case TopicGrown():
            _change_topic(state, record.topic_id, partition_count=record.partition_count)
        case TopicConfigured():
            _note_compaction(state, record.topic_id, record.configs)
            _change_topic(state, record.topic_id, configs=record.configs)
        case BrokerConfigured():
            state.broker_configs[record.broker_id] = record.configs
        case GroupConfigured():
            state.group_configs[record.group] = record.configs
        case FeatureFinalized():
            state.features[record.name] = record.level
            state.features_epoch += 1
        case ProducerIdsReserved():
            state.reserved_producer_ids = record.next_producer_id


def _note_compaction(state: JournalState, topic_id: str, configs: Mapping[str, str]) -> None:
    if "compact" in configs.get("cleanup.policy", ""):
        state.compacted.add(UUID(topic_id))


def _change_topic(state: JournalState, topic_id: str, **changes: Any) -> None:
    """A topic that was deleted in the meantime is not there any more."""
    for name, topic in state.topics.items():
        if topic.topic_id == topic_id:
            state.topics[name] = replace(topic, **changes)
            return


def find_partitions(directories: LogDirectories, state: JournalState, journal_path: str) -> None:
    """Find every partition that the journal knows. Raises DiskError if one is missing, in two places, or not known."""
    directories.find_partitions(state.deleted)
    partitions = [(topic.name, index) for topic in state.topics.values() for index in range(topic.partition_count)]
    unknown = directories.made_besides(partitions)
    if unknown or (state.last_leader_epoch < 0 and directories.were_in_use()):
        raise DiskError(
            f"{journal_path} is damaged: it knows nothing of {unknown or 'any start'}, and the log directories do: "
            "restore it from a copy"
        )
    directories.check_complete(partitions, state.log_directories)


def load_transactions(broker: Needs) -> None:
    """Replay the transaction log: of each transactional id the last record counts."""
    coordinator = broker.transactions.coordinator
    for partition in _whole_partitions(broker, TRANSACTION_STATE):
        for data, position, header in _batches(partition):
            # No transaction writes here: a marker is what an administrator had written, and says nothing.
            if header.is_control:
                continue
            for raw, record in _readable(partition, data, position, transactions.decode):
                if _belongs(partition, coordinator.partition_for(record.transactional_id), raw):
                    coordinator.replay(partition.index, record)


def load_offsets(broker: Needs) -> None:
    """Replay the committed offsets, with the markers that say which transactional ones count."""
    coordinator = broker.offsets.coordinator
    for partition in _whole_partitions(broker, CONSUMER_OFFSETS):
        for data, position, header in _batches(partition):
            if header.is_control:
                marker = read_control(data, position)
                if marker is None:
                    continue
                committed = marker.control is ControlType.COMMIT
                coordinator.replay_marker(partition.index, header.producer_id, committed)
                continue
            found: Iterator[tuple[Record, GroupRecord]] = _readable(partition, data, position, groups.decode)
            for raw, record in found:
                if _belongs(partition, coordinator.partition_for(record.group), raw):
                    coordinator.replay(partition.index, record, header.producer_id, header.is_transactional, raw.offset)


def _readable(
    partition: Partition, data: bytes, position: int, decode: Callable[[Record], R | None]
) -> Iterator[tuple[Record, R]]:
    """The records of a batch that mean something to a coordinator.

    An administrator may write to these topics too (Produce as `__admin_client`). What cannot be read is left out and said:
    it must not keep the broker from starting.
    """
    try:
        raws = decode_batch(data, position)
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


def _belongs(partition: Partition, home: int, raw: Record) -> bool:
    if partition.index != home:
        logger.error("%s: the record at offset %d is left out: it belongs to partition %d", partition, raw.offset, home)
    return partition.index == home


def _whole_partitions(broker: Needs, topic: str) -> Iterator[Partition]:
    """Those that can be read to their end: half of what a coordinator decided is worse than nothing."""
    found = broker.topics.named(topic)
    for partition in found.partitions if found is not None else ():
        if partition.is_offline:
            continue
        try:
            for _ in _batches(partition):
                pass
        except DamagedLogError as damage:
            broker.topics.take_offline(partition, damage)
        else:
            yield partition


def _batches(partition: Partition) -> Iterator[tuple[bytes, int, BatchHeader]]:
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, offset = log.read(offset, READ_BYTES, log.log_end_offset)
        for position, header in batches(data):
            yield bytes(data), position, header
