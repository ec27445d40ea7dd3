"""AlterPartitionReassignments v0-1: a partition can stay where it is, and there is nothing to cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    types = request.types
    return request.answer(
        allow_replication_factor_change=getattr(request.body, "allow_replication_factor_change", True),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            types.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_partition(broker, types, topic.name, item) for item in topic.partitions),
            )
            for topic in request.body.topics
        ),
    )


def _partition(broker: Broker, types: Any, name: str, asked: Any) -> Any:
    error, message = ErrorCode.none, None
    if broker.topics.partition(name, asked.partition_index) is None:
        error, message = ErrorCode.unknown_topic_or_partition, f"there is no partition {name}-{asked.partition_index}"
    elif asked.replicas is None:
        error, message = ErrorCode.no_reassignment_in_progress, None
    elif tuple(asked.replicas) != (broker.node_id,):
        error, message = ErrorCode.invalid_replica_assignment, f"broker {broker.node_id} is the only one"
    return types.ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=error, error_message=message
    )
