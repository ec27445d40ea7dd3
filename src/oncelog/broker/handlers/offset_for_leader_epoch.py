"""OffsetForLeaderEpoch v2-4: where an epoch ended, so that a client can see whether what it read was cut off (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.leader_epochs import epoch_problem
from oncelog.broker.request import Request
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    types = request.types
    return request.answer(
        topics=tuple(
            types.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_partition(broker, request, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.body.topics
        )
    )


def _partition(broker: Broker, request: Request, topic: str, asked: Any) -> Any:
    partition = broker.topics.partition(topic, asked.partition)
    error = (
        ErrorCode.unknown_topic_or_partition
        if partition is None
        else epoch_problem(partition, asked.current_leader_epoch)
    )
    epoch, end_offset = -1, -1
    if partition is not None and error is None:
        epoch, end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
    return construct(
        request.types.EpochEndOffset,
        error_code=error or ErrorCode.none,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
