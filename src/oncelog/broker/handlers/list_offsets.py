"""ListOffsets v1-11: the offset of a timestamp, or one of the ends of a partition.

v2 the isolation level: for read_committed the latest offset is the last stable offset; v4 leader epochs; v5 an error of its own
for a new leader that does not know the latest offset yet (KIP-207); v7 the record with the largest timestamp (-3); v8 the
earliest local offset (-4), which without remote storage is the earliest; v9 the latest tiered offset (-5) and v11 the earliest
pending upload (-6), of which there are none here.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial
from typing import Any, NamedTuple

from oncelog.broker.leaders import epoch_problem
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock, DiskError
from oncelog.wire import ErrorCode, construct

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
MIN_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
LATEST_IS_UNKNOWN_FROM_VERSION = 5
CONSUMER, DEBUGGING_CONSUMER = -1, -2
"""The replica id of a client. The second one looks into any replica's log."""


class Found(NamedTuple):
    """A timestamp and an offset, each -1 if there is none, and the leader epoch of the offset."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOT_FOUND = Found()


async def handle(request: Request, clock: Clock, topics: Topics) -> Any:
    turn = Turn(clock)
    asked, twice = await _once_each(request, turn)
    answers = []
    for name, wanted in asked.items():
        partitions = await turn.each(tuple(wanted.values()), partial(_partition, topics, request, twice, name))
        answers.append(request.types.ListOffsetsTopicResponse(name=name, partitions=partitions))
    return request.answer(topics=tuple(answers))


async def _once_each(request: Request, turn: Turn) -> tuple[Mapping[str, Mapping[int, Any]], Set[tuple[str, int]]]:
    """The question for each partition, and the partitions that are named twice: they are answered once, as in Kafka."""
    asked: dict[str, dict[int, Any]] = {}
    twice: set[tuple[str, int]] = set()
    for topic in request.body.topics:
        for partition in topic.partitions:
            wanted = asked.setdefault(topic.name, {})
            if partition.partition_index in wanted:
                twice.add((topic.name, partition.partition_index))
            wanted[partition.partition_index] = partition
            if turn.is_over:
                await turn.rest()
    return asked, twice


def _partition(topics: Topics, request: Request, twice: Set[tuple[str, int]], topic: str, asked: Any) -> Any:
    if (topic, asked.partition_index) in twice:
        return _result(request, asked, ErrorCode.invalid_request)
    if (asked.timestamp < 0 and request.version < MIN_VERSION_OF.get(asked.timestamp, 0)) or asked.timestamp < -6:
        return _result(request, asked, ErrorCode.unsupported_version)
    partition = topics.partition(topic, asked.partition_index)
    if partition is None:
        return _result(request, asked, ErrorCode.unknown_topic_or_partition)
    problem = epoch_problem(
        partition,
        getattr(asked, "current_leader_epoch", -1),
        only_from_leader=request.body.replica_id != DEBUGGING_CONSUMER,
    )
    if problem is not None:
        return _result(request, asked, problem)
    try:
        found = _find(partition, asked.timestamp, _limit_offset(partition, request.body))
    except DiskError as error:
        topics.failed(partition, error)
        return _result(request, asked, ErrorCode.kafka_storage_error)
    if request.body.replica_id == CONSUMER and _depends_on_high_watermark(partition, asked.timestamp, found):
        is_known = request.version >= LATEST_IS_UNKNOWN_FROM_VERSION
        return _result(request, asked, ErrorCode.offset_not_available if is_known else ErrorCode.leader_not_available)
    return _result(request, asked, ErrorCode.none, found)


def _limit_offset(partition: Partition, body: Any) -> int:
    """The offset at which a consumer may read no further; for others the log end offset."""
    if body.replica_id != CONSUMER:
        return partition.log.log_end_offset
    return partition.limit_offset(getattr(body, "isolation_level", 0))


def _depends_on_high_watermark(partition: Partition, timestamp: int, found: Found) -> bool:
    """True if the result may be less than the earlier leader has answered already (KIP-207).

    That is so for the latest offset, and for a timestamp for which nothing is found, until the high watermark of a new leader
    has reached the start of its leader epoch.
    """
    if not partition.is_behind_its_epoch or timestamp in (EARLIEST, EARLIEST_LOCAL):
        return False
    return timestamp == LATEST or found is NOT_FOUND


def _find(partition: Partition, timestamp: int, limit_offset: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return Found(offset=limit_offset, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(offset=log.log_start_offset, leader_epoch=log.epoch_at(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp, limit_offset)
    if found is None or found.offset >= limit_offset:
        return NOT_FOUND
    return Found(found.timestamp_ms, found.offset, log.epoch_at(found.offset))


def _result(request: Request, asked: Any, error: ErrorCode, found: Found = NOT_FOUND) -> Any:
    return construct(
        request.types.ListOffsetsPartitionResponse,
        partition_index=asked.partition_index,
        error_code=error,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )
