"""Reads whole logs, and compares them with the broker's state.

It uses none of the broker's own rules: it derives producers and transactions from the batches by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any
from uuid import UUID

from oncelog import groups, transactions
from oncelog.broker import BrokerCore
from oncelog.broker.coordinators.group_log import UnconfirmedRecords
from oncelog.broker.coordinators.loading import load_offsets, load_transactions
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE, Topic
from oncelog.groups import GroupCoordinator
from oncelog.records import NO_SEQUENCE, BatchHeader, ControlType, batches, decode_batch, next_sequence, read_control
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.transactions import DECIDED, TransactionCoordinator, TransactionMetadata, has_epoch_per_transaction
from oncelog.transactions.state import PREPARE_COMMIT

READ_BYTES = 1024 * 1024
WINDOWS_MAX = 12


@dataclass(slots=True)
class AuditedProducer:
    epoch: int
    last_sequence: int = NO_SEQUENCE
    first_offset: int = -1
    """The first offset of its open transaction."""


@dataclass(slots=True)
class AuditedLog:
    """The state of a log, derived from its batches."""

    producers: dict[int, AuditedProducer] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """The producer id, the first offset and the offset of the marker, in the order of the markers."""
    ended: list[tuple[int, int]] = field(default_factory=list)
    """The first offset of each transaction that has its marker, and the offset of that."""
    markers: set[tuple[int, int, bool]] = field(default_factory=set)
    """The producer id and epoch, and whether it is a commit."""


def audit_logs(core: BrokerCore, durable: Mapping[tuple[UUID, int], int]) -> dict[tuple[str, int], AuditedLog]:
    """Raise SimulationFailure where a log contradicts itself, or the broker what is in it.

    `durable` is up to where each log was known to be durable in its own files when something may last have been cleaned.
    """
    found: dict[tuple[str, int], AuditedLog] = {}
    for one in core.topics.partitions():
        if one.role is ReplicaRole.NONE:
            continue
        has_gaps = _has_gaps(core, one)
        gaps_below = (
            max(durable.get((one.log.topic_id, one.index), 0), one.log.compaction.cleaned_offset or 0)
            if has_gaps
            else 0
        )
        found[one.topic, one.index] = audit_log(one, has_gaps=has_gaps, gaps_below=gaps_below)
    return found


def _has_gaps(core: BrokerCore, partition: Partition) -> bool:
    topic = core.topics.named(partition.topic)
    return partition.log.compaction.cleaned_offset is not None or (topic is not None and "compact" in topic.policies)


def _is_whole(core: BrokerCore, partition: Partition) -> bool:
    return partition.log.log_start_offset == 0 and not _has_gaps(core, partition)


def audit_log(partition: Partition, *, has_gaps: bool, gaps_below: int) -> AuditedLog:
    """Batches follow one another; in a log that `has_gaps` cleanings have taken offsets, but none from `gaps_below` on."""
    log = partition.log
    found = AuditedLog()
    is_whole = log.log_start_offset == 0 and not has_gaps
    next_offset, leader_epoch = log.log_start_offset, -1
    borders: list[int] = []
    for data, position, header in _batches(partition):
        _must(header.leader_epoch >= leader_epoch, partition, header, "its leader epoch goes back")
        # The log may begin inside a batch.
        is_first = next_offset == log.log_start_offset and header.base_offset < next_offset <= header.last_offset
        is_next = header.base_offset == next_offset or is_first or next_offset < header.base_offset <= gaps_below
        _must(is_next, partition, header, f"offset {next_offset} comes next")
        next_offset, leader_epoch = header.next_offset, header.leader_epoch
        borders.append(next_offset)
        if header.producer_id < 0:
            continue
        if header.is_control:
            _take_marker(found, header, read_control(data, position), is_whole=is_whole)
        else:
            _take_data(found, partition, header, has_gaps=has_gaps)
    is_end = next_offset == log.log_end_offset or next_offset < log.log_end_offset <= gaps_below
    _must_be(is_end, f"{log.name} ends at {next_offset}, and not at {log.log_end_offset}")
    if is_whole:
        _compare_producers(log, found)
        _compare_aborted(log, found, borders)
    return found


def _take_data(found: AuditedLog, partition: Partition, header: BatchHeader, *, has_gaps: bool) -> None:
    producer = found.producers.get(header.producer_id)
    is_by_client = partition.topic not in INTERNAL_TOPICS and header.base_sequence != NO_SEQUENCE
    if producer is None:
        producer = found.producers[header.producer_id] = AuditedProducer(header.producer_epoch)
    elif is_by_client and not has_gaps:
        _must(header.producer_epoch >= producer.epoch, partition, header, "the epoch of its producer goes back")
        is_same = header.producer_epoch == producer.epoch and producer.last_sequence != NO_SEQUENCE
        wanted = next_sequence(producer.last_sequence, 1) if is_same else 0
        _must(header.base_sequence == wanted, partition, header, f"sequence {wanted} comes next")
    producer.epoch = header.producer_epoch
    producer.last_sequence = (
        NO_SEQUENCE
        if header.base_sequence == NO_SEQUENCE
        else next_sequence(header.base_sequence, header.last_offset_delta)
    )
    if header.is_transactional and producer.first_offset < 0:
        producer.first_offset = header.base_offset


def _take_marker(found: AuditedLog, header: BatchHeader, marker: Any, *, is_whole: bool) -> None:
    if not is_whole and header.producer_id not in found.producers:
        return  # What was before it, and where its sequences stand, is not in the log any more.
    producer = found.producers.setdefault(header.producer_id, AuditedProducer(header.producer_epoch))
    if header.producer_epoch != producer.epoch:
        producer.epoch, producer.last_sequence = header.producer_epoch, NO_SEQUENCE
    is_commit = marker is not None and marker.control is ControlType.COMMIT
    if producer.first_offset >= 0:
        found.ended.append((producer.first_offset, header.base_offset))
        if not is_commit:
            found.aborted.append((header.producer_id, producer.first_offset, header.base_offset))
    producer.first_offset = -1
    found.markers.add((header.producer_id, header.producer_epoch, is_commit))


def _compare_producers(log: Any, found: AuditedLog) -> None:
    live = {
        one.producer_id: AuditedProducer(one.producer_epoch, one.last_sequence, one.current_transaction_first_offset)
        for one in log.producers.active()
    }
    for producer_id, known in live.items():
        said = found.producers.get(producer_id)
        _must_be(known == said, f"{log.name}: of producer {producer_id} it knows {known}, and the log says {said}")
    forgotten = [producer_id for producer_id, one in found.producers.items() if one.first_offset >= 0]
    missing = sorted(set(forgotten) - live.keys())
    _must_be(not missing, f"{log.name}: it knows nothing of the open transactions of producers {missing}")
    stable, wanted = log.last_stable_offset, _stable_offset(log, found)
    _must_be(stable == wanted, f"{log.name}: the last stable offset is {stable}, and its log says {wanted}")


def _stable_offset(log: Any, found: AuditedLog) -> int:
    """Below the high watermark, and below every transaction that is not decided below it."""
    high: int = log.high_watermark
    undecided = [first for first, marker in found.ended if marker >= high]
    undecided += [one.first_offset for one in found.producers.values() if one.first_offset >= 0]
    return min([high, *undecided])


def _compare_aborted(log: Any, found: AuditedLog, borders: list[int]) -> None:
    """Whatever part of the log an answer has, the aborted transactions with records in it go with it."""
    every = {(producer_id, first) for producer_id, first, _ in found.aborted}
    step = max(1, len(borders) // WINDOWS_MAX)
    ends = sorted({*borders[::step], *(first + 1 for _, first, _ in found.aborted[-WINDOWS_MAX:])})
    for first_offset, upper in [(0, log.log_end_offset), *pairwise(ends)]:
        if first_offset >= upper:
            continue
        wanted = {(one[0], one[1]) for one in found.aborted if one[1] < upper and one[2] >= first_offset}
        told = [(one.producer_id, one.first_offset) for one in log.aborted_transactions(first_offset, upper)]
        where = f"{log.name} from {first_offset} to {upper}"
        _must_be(wanted <= set(told) <= every, f"{where}: aborted are {sorted(wanted)}, and readers are told {told}")
        _must_be(told == sorted(told, key=lambda one: one[1]), f"{where}: aborted transactions out of order: {told}")


def audit_coordinators(core: BrokerCore) -> None:
    """Raise SimulationFailure where a coordinator is not what its log makes of it."""
    if any(topic.offline for topic in core.topics if topic.is_internal):
        return  # What is in a log that cannot be read is not known.
    live, offsets = core.transactions.coordinator, core.offsets.coordinator
    replayed = TransactionCoordinator(live.partition_count)
    said = GroupCoordinator(offsets.partition_count)
    logs = [load_transactions(one, replayed) for one in _served(core.topics.named(TRANSACTION_STATE))]
    logs += [
        load_offsets(one, said, groups.decode, UnconfirmedRecords())
        for one in _served(core.topics.named(CONSUMER_OFFSETS))
    ]
    for _ in chain.from_iterable(logs):
        pass
    known = {one.transactional_id: one for one in live.transactions()}
    written = {one.transactional_id: one for one in replayed.transactions()}
    for transactional_id in known.keys() | written.keys():
        here, there = (_recorded(one.get(transactional_id), live) for one in (known, written))
        # Complete is in the log, and not durable yet: it becomes true when it is.
        is_being_completed = here is not None and here.status in DECIDED
        if not is_being_completed and not live.ids.is_pending(transactional_id):
            _must_be(here == there, f"{transactional_id} is {here}, and its log says {there}")
    _must_be(offsets.offsets == said.offsets, "the offsets of groups are not those of their log")
    recorded, logged = offsets.members.classic.recorded, said.members.classic.recorded
    _must_be(recorded == logged, f"groups are {recorded}, and their log says {logged}")


def _recorded(metadata: TransactionMetadata | None, live: TransactionCoordinator) -> TransactionMetadata | None:
    """The fields that a record of the transaction log holds. Records of the first generation lack those of the second."""
    if metadata is None:
        return None
    metadata = metadata._replace(last_producer_epoch=-1)
    if has_epoch_per_transaction(live.transaction_version):
        return metadata
    return metadata._replace(previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)


def audit_decisions(core: BrokerCore, logs: Mapping[tuple[str, int], AuditedLog], made_anew: Collection[str]) -> None:
    """Every decision has its marker in every partition that it names. Call it when no transaction is under way.

    Of topics that were `made_anew` under their names old decisions say nothing.
    """
    topic = core.topics.named(TRANSACTION_STATE)
    for partition in _served(topic):
        for data, position, header in _batches(partition):
            for raw in () if header.is_control else decode_batch(data, position):
                record = transactions.decode(raw)
                decided = None if record is None else record.metadata
                if decided is None or decided.status not in DECIDED:
                    continue
                for key in decided.partitions:
                    other = core.topics.partition(*key)
                    if (
                        other is None
                        or other.role is ReplicaRole.NONE
                        or other.is_offline
                        or key[0] in made_anew
                        or not _is_whole(core, other)
                    ):
                        continue
                    marker = decided.producer_id, decided.producer_epoch, decided.status is PREPARE_COMMIT
                    missing = f"{decided.transactional_id}: {other} lacks the marker {marker}"
                    _must_be(marker in logs[key].markers, missing)


def audit_committed_offsets(core: BrokerCore) -> None:
    """A group's offset is the last one whose transaction was committed, or that was outside of any."""
    topic = core.topics.named(CONSUMER_OFFSETS)
    if topic is not None and topic.offline:
        return
    wanted: dict[tuple[str, str, int], tuple[int, int]] = {}
    for partition in _served(topic):
        pending: dict[int, list[tuple[tuple[str, str, int], int, int]]] = {}
        for data, position, header in _batches(partition):
            if header.is_control:
                marker = read_control(data, position)
                written = pending.pop(header.producer_id, [])
                if marker is not None and marker.control is ControlType.COMMIT:
                    for key, place, offset in written:
                        wanted[key] = max(wanted.get(key, (-1, -1)), (place, offset))
                continue
            for raw in decode_batch(data, position):
                record = groups.decode(raw)
                if not isinstance(record, groups.OffsetRecord):
                    continue
                key = record.group, record.topic, record.partition
                if record.committed is None:
                    wanted.pop(key, None)
                    for entries in pending.values():
                        entries[:] = [one for one in entries if one[0] != key]
                elif header.is_transactional:
                    pending.setdefault(header.producer_id, []).append((key, raw.offset, record.committed.offset))
                else:
                    wanted[key] = raw.offset, record.committed.offset
    live = {
        (group, *at): (stored.log_offset, stored.committed.offset)
        for group, at, stored in core.offsets.coordinator.offsets
    }
    odd = sorted(live.items() ^ wanted.items())
    _must_be(not odd, f"the committed offsets are not those of their log: {odd[:4]}")


def _served(topic: Topic | None) -> list[Partition]:
    """The partitions that this broker leads; every one if it is alone."""
    if topic is None:
        return []
    return [one for one in topic.partitions if one.role is ReplicaRole.LEADER and not one.is_offline]


def _batches(partition: Partition) -> Iterator[tuple[bytes, int, BatchHeader]]:
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        at = offset
        data, offset = log.read(at, READ_BYTES, log.log_end_offset)
        _must_be(offset > at, f"{partition} has nothing at offset {at}, and ends at {log.log_end_offset}")
        for position, header in batches(data):
            yield bytes(data), position, header


def _must(is_so: bool, partition: Partition, header: BatchHeader, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(f"{partition} at {header.base_offset}, {header}: {otherwise}")


def _must_be(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(otherwise)
