"""AlterPartition v2-3: the leader of a partition asks the controller for another in-sync set (KIP-497).

v2 names topics by id; v3 has the epochs of the members, of which a controller over ZooKeeper knows better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.controller.alter_partition import IsrResult, WantedIsr
from oncelog.controller.values import LeaderRecoveryState
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.cluster.membership import Membership

EPOCHS_FROM_VERSION = 3


class Needs(Protocol):
    """What this API needs of the broker."""

    membership: Membership


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    wanted = {
        (topic.topic_id, one.partition_index): _wanted(request.version, one)
        for topic in body.topics
        for one in topic.partitions
    }
    controller = broker.membership.controller
    results = await controller.alter_partitions(body.broker_id, body.broker_epoch, wanted, request.version)
    if isinstance(results, ErrorCode):
        return request.answer(error_code=results, topics=())
    types = request.types
    return request.answer(
        error_code=ErrorCode.none,
        topics=tuple(
            types.TopicData(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _result(types, one.partition_index, results[topic.topic_id, one.partition_index])
                    for one in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _wanted(version: int, asked: Any) -> WantedIsr:
    if version >= EPOCHS_FROM_VERSION:
        isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
    else:
        isr = asked.new_isr
    return WantedIsr(asked.leader_epoch, isr, LeaderRecoveryState(asked.leader_recovery_state), asked.partition_epoch)


def _result(types: Any, index: int, result: IsrResult) -> Any:
    if isinstance(result, ErrorCode):
        return construct(types.PartitionData, partition_index=index, error_code=result, **_NOTHING)
    return construct(
        types.PartitionData,
        partition_index=index,
        error_code=ErrorCode.none,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=result.isr,
        leader_recovery_state=int(result.recovery_state),
        partition_epoch=result.partition_epoch,
    )


_NOTHING = {"leader_id": 0, "leader_epoch": 0, "isr": (), "leader_recovery_state": 0, "partition_epoch": 0}
