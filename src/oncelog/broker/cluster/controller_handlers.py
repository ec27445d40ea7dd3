"""What brokers ask of the controller: AlterPartition, ControlledShutdown and AllocateProducerIds, from message to message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from oncelog.broker.cluster.controller import Controller
from oncelog.controller import (
    IsrResult,
    LeaderAndIsr,
    LeaderRecoveryState,
    TopicPartition,
    WantedIsr,
)
from oncelog.wire import ErrorCode, construct, message_module
from oncelog.wire.zookeeper_mode import CONTROLLED_SHUTDOWN
from oncelog.zookeeper.znodes import PRODUCER_IDS_IN_A_BLOCK

ALTER_PARTITION = 56
ALLOCATE_PRODUCER_IDS = 67
TOPIC_IDS_SINCE = 2
"""AlterPartition names topics by their ids from v2 on (KIP-841), and has the epochs of brokers from v3 on (KIP-903)."""
NOT_THROTTLED = timedelta(0)


async def alter_partition(controller: Controller, version: int, body: Any) -> Any:
    wanted: dict[TopicPartition, WantedIsr] = {}
    asked: list[tuple[Any, str | None]] = []
    for topic in body.topics:
        name = controller.topic_named(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic_name
        asked.append((topic, name))
        if name is not None:
            wanted |= {(name, one.partition_index): _wanted(one) for one in topic.partitions}
    results = await controller.alter_partitions(body.broker_id, body.broker_epoch, wanted, version)
    types = message_module(ALTER_PARTITION, version, "response")
    if isinstance(results, ErrorCode):
        return construct(types.AlterPartitionResponse, throttle_time=NOT_THROTTLED, error_code=results, topics=())
    topics = []
    for topic, name in asked:
        partitions = tuple(
            _partition(types, number, ErrorCode.unknown_topic_id if name is None else results[name, number])
            for number in (one.partition_index for one in topic.partitions)
        )
        known = {"topic_id": topic.topic_id} if version >= TOPIC_IDS_SINCE else {"topic_name": topic.topic_name}
        topics.append(types.TopicData(**known, partitions=partitions))
    return construct(
        types.AlterPartitionResponse, throttle_time=NOT_THROTTLED, error_code=ErrorCode.none, topics=tuple(topics)
    )


def _wanted(asked: Any) -> WantedIsr:
    """Before v1 a leader has always recovered. The epochs of v3 are of no use over ZooKeeper, as in Kafka."""
    if hasattr(asked, "new_isr_with_epochs"):
        isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
    else:
        isr = tuple(asked.new_isr)
    recovery = LeaderRecoveryState(getattr(asked, "leader_recovery_state", LeaderRecoveryState.RECOVERED))
    return WantedIsr(asked.leader_epoch, isr, recovery, asked.partition_epoch)


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
    is_refused = isinstance(block, ErrorCode)
    types = message_module(ALLOCATE_PRODUCER_IDS, version, "response")
    return types.AllocateProducerIdsResponse(
        throttle_time=NOT_THROTTLED,
        error_code=block if isinstance(block, ErrorCode) else ErrorCode.none,
        producer_id_start=0 if isinstance(block, ErrorCode) else block.first,
        producer_id_len=0 if is_refused else PRODUCER_IDS_IN_A_BLOCK,
    )
