"""Elections on request, and automatic elections of preferred leaders."""

from __future__ import annotations

import logging
from collections.abc import Collection
from enum import Enum

from oncelog.cluster.controller.actions import DeletePreferredElection
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import ElectionStrategy, preferred_may_lead
from oncelog.cluster.controller.partitions import (
    ElectionResult,
    ElectionResults,
    StateChangeFailed,
    change_partitions,
)
from oncelog.cluster.controller.values import NO_LEADER, ApiError, PartitionState, TopicPartition
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode

NOT_NEEDED = ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")

logger = logging.getLogger("oncelog.cluster.controller")


class ElectionType(Enum):
    """The numbers of ElectLeaders (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


ElectionAnswers = dict[TopicPartition, int | ApiError]
"""The leader of each partition, or an error."""


async def elect_leaders(
    context: ControllerContext, partitions: Collection[TopicPartition], election_type: ElectionType
) -> ElectionAnswers:
    """Serves ElectLeaders. An unclean election that a user requests ignores the topic's setting."""
    answers: ElectionAnswers = {}
    electable = []
    for partition in partitions:
        problem = _problem(context, partition, election_type)
        if problem is None:
            electable.append(partition)
        else:
            answers[partition] = problem
    results = await _elect(context, electable, election_type)
    return answers | {partition: _answer(result, election_type) for partition, result in results.items()}


async def elect_from_znode(context: ControllerContext, partitions: Collection[TopicPartition]) -> None:
    """As `/admin/preferred_replica_election` asks; the znode is removed whatever came of it."""
    await elect_leaders(context, partitions, ElectionType.PREFERRED)
    await context.actions.write_all([DeletePreferredElection()])


async def rebalance(context: ControllerContext, imbalance_percentage: int) -> None:
    """auto.leader.rebalance.enable: brokers get back what they should lead, each if it leads too little of that."""
    preferred: dict[int, list[TopicPartition]] = {}
    for partition in context.partitions():
        replicas = context.replicas(partition)
        if replicas and partition[0] not in context.to_be_deleted:
            preferred.setdefault(replicas[0], []).append(partition)
    for broker_id, partitions in sorted(preferred.items()):
        elsewhere = [
            partition
            for partition in partitions
            if partition in context.leaders and context.leaders[partition].leader != broker_id
        ]
        if len(elsewhere) / len(partitions) > imbalance_percentage / 100:
            wanted = [partition for partition in elsewhere if _preferred_may_lead(context, partition)]
            await _elect(context, wanted, ElectionType.PREFERRED)


def _preferred_may_lead(context: ControllerContext, partition: TopicPartition) -> bool:
    return preferred_may_lead(context.replicas(partition), context.leaders[partition], context.online_at(partition))


def _problem(context: ControllerContext, partition: TopicPartition, election_type: ElectionType) -> ApiError | None:
    if not context.replicas(partition):
        return ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    if partition[0] in context.to_be_deleted:
        return ApiError(ErrorCode.invalid_topic_exception, "The topic is being deleted")
    led = context.leaders.get(partition)
    leader = NO_LEADER if led is None else led.leader
    if election_type is ElectionType.PREFERRED:
        is_needed = leader != context.replicas(partition)[0]
    else:
        is_needed = not context.is_live(leader)
    return None if is_needed else NOT_NEEDED


async def _elect(
    context: ControllerContext, partitions: list[TopicPartition], election_type: ElectionType
) -> ElectionResults:
    is_preferred = election_type is ElectionType.PREFERRED
    strategy = ElectionStrategy.PREFERRED if is_preferred else ElectionStrategy.OFFLINE_UNCLEAN
    return await change_partitions(context, partitions, PartitionState.ONLINE, strategy)


def _answer(result: ElectionResult, election_type: ElectionType) -> int | ApiError:
    if isinstance(result, StateChangeFailed):
        is_preferred = election_type is ElectionType.PREFERRED
        code = ErrorCode.preferred_leader_not_available if is_preferred else ErrorCode.eligible_leaders_not_available
        return ApiError(code, result.message)
    if isinstance(result, ZooKeeperError):
        return ApiError(ErrorCode.unknown_server_error)
    return result.leader
