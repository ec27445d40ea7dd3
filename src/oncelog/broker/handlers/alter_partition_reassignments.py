"""AlterPartitionReassignments v0-1: a partition can stay where it is, and there is nothing to cancel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    node_id: int
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    turn, types = Turn(broker.clock), request.types
    topics = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partitions, partial(_partition, broker, types, asked.name))
        topics.append(types.ReassignableTopicResponse(name=asked.name, partitions=partitions))
    return request.answer(
        allow_replication_factor_change=getattr(request.body, "allow_replication_factor_change", True),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(topics),
    )


def _partition(broker: Needs, types: Any, name: str, asked: Any) -> Any:
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
