"""LeaderAndIsr v5-7: the controller of a cluster says which partitions this broker leads, and which it follows.

v6 says whether a leader has to recover first, which only its own broker could do; v7 may come from a controller of KRaft.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.storage.topics import INTERNAL_TOPICS
from oncelog.cluster.membership import ClusterMembership
from oncelog.cluster.replicas.replicas import ReplicaOrder
from oncelog.replication import LeaderAndIsrState
from oncelog.wire import ErrorCode


async def handle(request: Request, membership: ClusterMembership) -> Any:
    body = request.body
    coordinated = [topic.topic_name for topic in body.topic_states if topic.topic_name in INTERNAL_TOPICS]
    partition_counts = await membership.topic_changes.partition_counts(coordinated)
    problem = await membership.problem(request)
    if problem is not None:
        return refusal(request, problem)
    told = [
        ReplicaOrder(topic.topic_name, topic.topic_id, one.partition_index, _state(one))
        for topic in body.topic_states
        for one in topic.partition_states
    ]
    errors = iter(await membership.replicas.become(told, partition_counts))
    types = request.types
    return request.answer(
        error_code=ErrorCode.none,
        topics=tuple(
            types.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    types.LeaderAndIsrPartitionError(partition_index=one.partition_index, error_code=next(errors))
                    for one in topic.partition_states
                ),
            )
            for topic in body.topic_states
        ),
    )


def refusal(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, topics=())


def _state(state: Any) -> LeaderAndIsrState:
    return LeaderAndIsrState(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.controller_epoch,
        state.replicas,
        state.adding_replicas,
        state.removing_replicas,
    )
