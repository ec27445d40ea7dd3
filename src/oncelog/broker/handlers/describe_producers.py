"""DescribeProducers v0: the producers that a partition remembers, and where their open transactions begin (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    types = request.types
    return request.answer(
        topics=tuple(
            types.TopicResponse(
                name=topic.name,
                partitions=tuple(_partition(broker, types, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.body.topics
        )
    )


def _partition(broker: Broker, types: Any, topic: str, index: int) -> Any:
    partition = broker.topics.partition(topic, index)
    if partition is None:
        return types.PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=f"there is no partition {topic}-{index}",
            active_producers=(),
        )
    return types.PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        active_producers=tuple(
            types.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_first_offset,
            )
            for producer in partition.log.active_producers()
        ),
    )
