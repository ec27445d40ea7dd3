"""ListOffsets v1-11: the offset of a timestamp, or one of the ends of a partition.

v2 the isolation level: for read_committed the latest offset is the last stable offset; v4 leader epochs; v7 the record with the
largest timestamp (-3); v8 the earliest local offset (-4), which without remote storage is the earliest; v9 the latest tiered
offset (-5) and v11 the earliest pending upload (-6), of which there are none here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.leader_epochs import epoch_problem
from oncelog.broker.storage.partition import Partition
from oncelog.environment import DiskError
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
MIN_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
NOT_FOUND = (-1, -1)


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    turn = Turn(broker.clock)
    topics = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partitions, partial(_partition, broker, request, asked.name))
        topics.append(request.types.ListOffsetsTopicResponse(name=asked.name, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _partition(broker: Needs, request: Request, topic: str, asked: Any) -> Any:
    partition = broker.topics.partition(topic, asked.partition_index)
    if partition is None:
        return _result(request, asked, ErrorCode.unknown_topic_or_partition, *NOT_FOUND, -1)
    problem = epoch_problem(partition, getattr(asked, "current_leader_epoch", -1))
    if problem is not None:
        return _result(request, asked, problem, *NOT_FOUND, -1)
    if (asked.timestamp < 0 and request.version < MIN_VERSION_OF.get(asked.timestamp, 0)) or asked.timestamp < -6:
        return _result(request, asked, ErrorCode.unsupported_version, *NOT_FOUND, -1)
    try:
        timestamp_ms, offset = _find(partition, asked.timestamp, getattr(request.body, "isolation_level", 0))
    except DiskError as error:
        broker.topics.failed(partition, error)
        return _result(request, asked, ErrorCode.kafka_storage_error, *NOT_FOUND, -1)
    epoch = -1 if offset < 0 else partition.log.epoch_at(offset)
    return _result(request, asked, ErrorCode.none, timestamp_ms, offset, epoch)


def _find(partition: Partition, timestamp: int, isolation_level: int) -> tuple[int, int]:
    """Timestamp and offset, each -1 if there is none."""
    log = partition.log
    limit = partition.limit_offset(isolation_level)
    if timestamp == LATEST:
        return -1, limit
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp, limit)
    return NOT_FOUND if found is None else (found.timestamp_ms, found.offset)


def _result(request: Request, asked: Any, error: ErrorCode, timestamp: int, offset: int, epoch: int) -> Any:
    return construct(
        request.types.ListOffsetsPartitionResponse,
        partition_index=asked.partition_index,
        error_code=error,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )
