"""AlterPartitionReassignments v0-1: a partition can stay where it is, and there is nothing to cancel."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode


async def handle(request: Request, clock: Clock, node_id: int, topics: Topics) -> Any:
    turn, types = Turn(clock), request.types
    answers = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partitions, partial(_partition, node_id, topics, types, asked.name))
        answers.append(types.ReassignableTopicResponse(name=asked.name, partitions=partitions))
    return request.answer(
        allow_replication_factor_change=getattr(request.body, "allow_replication_factor_change", True),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(answers),
    )


def _partition(node_id: int, topics: Topics, types: Any, name: str, asked: Any) -> Any:
    error, message = ErrorCode.none, None
    if topics.partition(name, asked.partition_index) is None:
        error, message = ErrorCode.unknown_topic_or_partition, f"there is no partition {name}-{asked.partition_index}"
    elif asked.replicas is None:
        error, message = ErrorCode.no_reassignment_in_progress, None
    elif tuple(asked.replicas) != (node_id,):
        error, message = ErrorCode.invalid_replica_assignment, f"broker {node_id} is the only one"
    return types.ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=error, error_message=message
    )
