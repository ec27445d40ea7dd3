"""OffsetDelete v0: forgets offsets of a group, but for topics that its members are subscribed to (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.groups import TopicPartition
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    asked = [(topic.name, partition.partition_index) for topic in request.body.topics for partition in topic.partitions]
    known = [partition for partition in asked if broker.topics.partition(*partition) is not None]
    deletion = broker.offsets.delete(request.body.group_id, known)
    if deletion.error is not ErrorCode.none:
        return request.answer(error_code=deletion.error, topics=())
    return _answer(request, dict(zip(known, deletion.errors, strict=True)))


def _answer(request: Request, errors: dict[TopicPartition, ErrorCode]) -> Any:
    types = request.types
    return request.answer(
        error_code=ErrorCode.none,
        topics=tuple(
            types.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    types.OffsetDeleteResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=errors.get(
                            (topic.name, asked.partition_index), ErrorCode.unknown_topic_or_partition
                        ),
                    )
                    for asked in topic.partitions
                ),
            )
            for topic in request.body.topics
        ),
    )
