"""WriteTxnMarkers v1-2: writes the end of a transaction straight into partitions: how an administrator ends a hanging one.

v2 says which transaction version the marker's epoch belongs to (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.partition import Partition
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    written: list[Partition] = []
    answer = request.answer(markers=tuple(_marker(broker, request, marker, written) for marker in request.body.markers))
    return reply_when(broker.durability.make_durable(partition.log for partition in written), lambda: answer)


def _marker(broker: Broker, request: Request, marker: Any, written: list[Partition]) -> Any:
    types = request.types
    return types.WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            types.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    types.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=_write(broker, marker, topic.name, index, written)
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )


def _write(broker: Broker, marker: Any, topic: str, index: int, written: list[Partition]) -> ErrorCode:
    partition = broker.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    written.append(partition)
    return broker.transactions.write_marker(
        partition,
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        getattr(marker, "transaction_version", 0),
        committed=marker.transaction_result,
    )
