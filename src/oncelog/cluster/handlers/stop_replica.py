"""StopReplica v3-4: the controller of a cluster says which partitions this broker follows no more, and which it deletes."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.membership import ClusterMembership
from oncelog.cluster.replicas.replicas import StopReplicaState
from oncelog.wire import ErrorCode


async def handle(request: Request, membership: ClusterMembership) -> Any:
    body = request.body
    problem = await membership.problem(request)
    if problem is not None:
        return refusal(request, problem)
    orders = [
        StopReplicaState(topic.topic_name, one.partition_index, one.leader_epoch, one.delete_partition)
        for topic in body.topic_states
        for one in topic.partition_states
    ]
    errors = await membership.replicas.stop(orders)
    types = request.types
    return request.answer(
        error_code=ErrorCode.none,
        partition_errors=tuple(
            types.StopReplicaPartitionError(topic_name=one.topic, partition_index=one.index, error_code=error)
            for one, error in zip(orders, errors, strict=True)
        ),
    )


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, partition_errors=())
