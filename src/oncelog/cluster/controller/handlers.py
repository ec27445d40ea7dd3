"""Requests of brokers to the controller: AlterPartition v2-3, ControlledShutdown v2-3 and AllocateProducerIds v0.

AlterPartition v0 and v1 belong to brokers before Kafka 3.3; the codec lacks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from oncelog.cluster.controller.alter_partition import IsrResult, WantedIsr
from oncelog.cluster.controller.controller import AskedPartition, Controller
from oncelog.cluster.controller.values import LeaderAndIsr, LeaderRecoveryState
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.wire import ErrorCode, construct, message_module

ALTER_PARTITION = 56
ALLOCATE_PRODUCER_IDS = 67
NOT_THROTTLED = timedelta(0)
RECOVERY_STATES = frozenset(LeaderRecoveryState)


async def alter_partition(controller: Controller, version: int, body: Any) -> Any:
    results: dict[AskedPartition, IsrResult] | ErrorCode
    states = {one.leader_recovery_state for topic in body.topics for one in topic.partitions}
    if states <= RECOVERY_STATES:
        wanted: dict[AskedPartition, WantedIsr] = {
            (topic.topic_id, one.partition_index): _wanted(one) for topic in body.topics for one in topic.partitions
        }
        results = await controller.alter_partitions(body.broker_id, body.broker_epoch, wanted, version)
    else:
        # As Kafka's controller, which throws at an unknown number.
        results = ErrorCode.unknown_server_error if controller.is_active else ErrorCode.not_controller
    types = message_module(ALTER_PARTITION, version, "response")
    is_refused = isinstance(results, ErrorCode)
    return construct(
        types.AlterPartitionResponse,
        throttle_time=NOT_THROTTLED,
        error_code=results if is_refused else ErrorCode.none,
        topics=() if isinstance(results, ErrorCode) else _topics(types, body, results),
    )


def _topics(types: Any, body: Any, results: Mapping[AskedPartition, IsrResult]) -> tuple[Any, ...]:
    return tuple(
        types.TopicData(
            topic_id=topic.topic_id,
            partitions=tuple(
                _partition(types, one.partition_index, results[topic.topic_id, one.partition_index])
                for one in topic.partitions
            ),
        )
        for topic in body.topics
    )


def _wanted(asked: Any) -> WantedIsr:
    """v3 has the epochs of brokers, too (KIP-903). Kafka's leaders know none over ZooKeeper."""
    epochs: dict[int, int] = {}
    if hasattr(asked, "new_isr_with_epochs"):
        isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
        epochs = {one.broker_id: one.broker_epoch for one in asked.new_isr_with_epochs}
    else:
        isr = tuple(asked.new_isr)
    recovery = LeaderRecoveryState(asked.leader_recovery_state)
    return WantedIsr(asked.leader_epoch, isr, recovery, asked.partition_epoch, epochs)


def _partition(types: Any, number: int, result: IsrResult) -> Any:
    if isinstance(result, LeaderAndIsr):
        return construct(
            types.PartitionData,
            partition_index=number,
            error_code=ErrorCode.none,
            leader_id=result.leader,
            leader_epoch=result.leader_epoch,
            isr=result.isr,
            leader_recovery_state=int(result.recovery_state),
            partition_epoch=result.partition_epoch,
        )
    return construct(
        types.PartitionData,
        partition_index=number,
        error_code=result,
        leader_id=0,
        leader_epoch=0,
        isr=(),
        leader_recovery_state=0,
        partition_epoch=0,
    )


async def controlled_shutdown(controller: Controller, version: int, body: Any) -> Any:
    error, remaining = await controller.shut_down_broker(body.broker_id, body.broker_epoch)
    types = message_module(CONTROLLED_SHUTDOWN, version, "response")
    partitions = tuple(
        types.RemainingPartition(topic_name=topic, partition_index=number) for topic, number in remaining
    )
    return types.ControlledShutdownResponse(error_code=error, remaining_partitions=partitions)


async def allocate_producer_ids(controller: Controller, version: int, body: Any) -> Any:
    block = await controller.allocate_producer_ids(body.broker_id, body.broker_epoch)
    error = block if isinstance(block, ErrorCode) else ErrorCode.none
    ids = range(0) if isinstance(block, ErrorCode) else range(block.first, block.last + 1)
    types = message_module(ALLOCATE_PRODUCER_IDS, version, "response")
    return types.AllocateProducerIdsResponse(
        throttle_time=NOT_THROTTLED, error_code=error, producer_id_start=ids.start, producer_id_len=len(ids)
    )
