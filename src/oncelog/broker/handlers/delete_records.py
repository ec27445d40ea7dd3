"""DeleteRecords v0-2: lets a partition begin at a later offset; -1 is its high watermark.

The answer waits until the new beginning is in a checkpoint, and what is kept is durable: neither a kill nor a power cut
brings deleted records back. Segments that lie wholly before it go with the next look for old segments, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.storage.partition import Partition
from oncelog.log import PartitionLog
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.storage.checkpoints import Checkpoints
    from oncelog.broker.storage.durability import Durability
    from oncelog.broker.storage.topics import Topics

HIGH_WATERMARK = -1
NO_OFFSET = -1


class Needs(Protocol):
    """What this API needs of the broker."""

    checkpoints: Checkpoints
    durability: Durability
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    results: dict[tuple[str, int], tuple[int, ErrorCode]] = {}
    moved: list[PartitionLog] = []
    for topic in request.body.topics:
        # As in Kafka, of a partition that is named twice the last counts.
        for asked in {one.partition_index: one for one in topic.partitions}.values():
            partition = broker.topics.partition(topic.name, asked.partition_index)
            error = _problem(broker, topic.name, partition, asked.offset)
            key = (topic.name, asked.partition_index)
            if partition is None or error is not ErrorCode.none:
                results[key] = (NO_OFFSET, error)
                continue
            log = partition.log
            log.advance_log_start(log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset)
            results[key] = (log.log_start_offset, ErrorCode.none)
            moved.append(log)
    if moved:
        # A log never begins beyond its end: what is before the new beginning is durable first.
        await broker.durability.make_durable(moved)
        await broker.checkpoints.write()
    return _answer(request, results)


def _problem(broker: Needs, name: str, partition: Partition | None, offset: int) -> ErrorCode:
    topic = broker.topics.named(name)
    if topic is None or partition is None:
        return ErrorCode.unknown_topic_or_partition
    if topic.is_internal:
        return ErrorCode.invalid_topic_exception
    if topic.policies == ["compact"]:
        return ErrorCode.policy_violation
    if partition.is_offline:
        return ErrorCode.kafka_storage_error
    if offset != HIGH_WATERMARK and not 0 <= offset <= partition.log.high_watermark:
        return ErrorCode.offset_out_of_range
    return ErrorCode.none


def _answer(request: Request, results: dict[tuple[str, int], tuple[int, ErrorCode]]) -> Any:
    types = request.types
    topics: dict[str, dict[int, Any]] = {}
    for (name, index), (low_watermark, error) in results.items():
        topics.setdefault(name, {})[index] = types.DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=low_watermark, error_code=error
        )
    return request.answer(
        topics=tuple(
            types.DeleteRecordsTopicResult(name=name, partitions=tuple(partitions.values()))
            for name, partitions in topics.items()
        )
    )
