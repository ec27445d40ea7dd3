"""AlterPartition (KIP-497): a leader asks for other in-sync replicas (KafkaController.tryProcessAlterPartition of 3.9)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from oncelog.cluster.controller.actions import SetPartitionState
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.reassignment import complete_if_in_sync
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.values import (
    UNKNOWN_BROKER_EPOCH,
    LeaderAndIsr,
    LeaderRecoveryState,
    TopicPartition,
    listed,
    show,
)
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.cluster.controller")

INELIGIBLE_REPLICA_SINCE = 2
"""AlterPartition v2 knows INELIGIBLE_REPLICA (KIP-841); before it is OPERATION_NOT_ATTEMPTED."""


@dataclass(frozen=True, slots=True)
class WantedIsr:
    """The in-sync set that a leader requests for one partition, and the epochs it knows."""

    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: LeaderRecoveryState
    partition_epoch: int
    broker_epochs: Mapping[int, int] = field(default_factory=dict)
    """The broker epoch under which each member caught up; UNKNOWN_BROKER_EPOCH or absent where the leader does not know it."""


IsrResult = LeaderAndIsr | ErrorCode
IsrResults = dict[TopicPartition, IsrResult]


def broker_epoch_problem(context: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    """The error of the whole request if the broker is not registered with this epoch."""
    broker = context.brokers.get(broker_id)
    return None if broker is not None and broker.epoch == broker_epoch else ErrorCode.stale_broker_epoch


async def alter_partitions(
    context: ControllerContext, broker_id: int, wanted: Mapping[TopicPartition, WantedIsr], version: int
) -> IsrResults:
    """Returns the state that each partition has now, or its error. Call `complete_reassignments` after the answer."""
    results: IsrResults = {}
    updates: list[SetPartitionState] = []
    for partition, isr in wanted.items():
        checked = _check(context, broker_id, partition, isr, version)
        if isinstance(checked, SetPartitionState):
            updates.append(checked)
        else:
            results[partition] = checked
    outcomes = await context.actions.write_all(updates)
    for update, outcome in zip(updates, outcomes, strict=True):
        partition = update.partition
        if isinstance(outcome, ZooKeeperError):
            results[partition] = _refused(outcome)
            logger.info("the in-sync replicas of %s could not be written: %s", show(partition), outcome.name)
        else:
            before = context.leaders[partition].isr
            state = update.state.written(outcome)
            results[partition] = context.leaders[partition] = state
            logger.info("in sync with %s: %s, before: %s", show(partition), listed(state.isr), listed(before))
    await _read_again(context, updates, results)
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers, wanted)
    batch.send()
    return results


async def _read_again(context: ControllerContext, updates: list[SetPartitionState], results: IsrResults) -> None:
    """Reads the states whose znodes have another version: the leader's next request is checked against these.

    The znode may already have the requested state: it was written just before the connection broke, and the repeated write failed.
    """
    refused = [update for update in updates if results[update.partition] is ErrorCode.invalid_update_version]
    read = await context.actions.read_states(update.partition for update in refused)
    context.leaders |= read
    for update in refused:
        state = read.get(update.partition)
        if state is not None and state.same_state(update.state):
            results[update.partition] = state


async def complete_reassignments(context: ControllerContext, results: IsrResults) -> None:
    for partition, result in results.items():
        if isinstance(result, LeaderAndIsr):
            await complete_if_in_sync(context, partition)


async def change_isrs(context: ControllerContext, partitions: Collection[TopicPartition]) -> None:
    """Follows `/isr_change_notification`: leaders of brokers before Kafka 2.7 have written these states themselves."""
    if not partitions:
        return
    context.leaders |= await context.actions.read_states(partitions)
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers, partitions)
    batch.send()
    for partition in partitions:
        await complete_if_in_sync(context, partition)


def _check(
    context: ControllerContext, broker_id: int, partition: TopicPartition, wanted: WantedIsr, version: int
) -> SetPartitionState | IsrResult:
    """Checks a request in Kafka's order: the leader gets the first error."""
    led = context.leaders.get(partition)
    if led is None:
        return ErrorCode.unknown_topic_or_partition
    if wanted.partition_epoch > led.partition_epoch or wanted.leader_epoch > led.leader_epoch:
        # It knows more than this controller, which therefore is none any more.
        return ErrorCode.not_controller
    if wanted.leader_epoch < led.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    asked = LeaderAndIsr(
        broker_id,
        wanted.leader_epoch,
        wanted.isr,
        wanted.recovery_state,
        wanted.partition_epoch,
        context.controller_epoch,
    )
    if asked.same_state(led):
        # Before the partition epoch is looked at: a request that was repeated is answered as the first one.
        return led
    if wanted.partition_epoch < led.partition_epoch:
        return ErrorCode.invalid_update_version
    if wanted.recovery_state is LeaderRecoveryState.RECOVERING and len(wanted.isr) > 1:
        return ErrorCode.invalid_request
    if led.recovery_state is LeaderRecoveryState.RECOVERED and wanted.recovery_state is LeaderRecoveryState.RECOVERING:
        return ErrorCode.invalid_request
    ineligible = [one for one in sorted(set(wanted.isr)) if not _is_eligible(context, one, wanted)]
    if ineligible:
        logger.info("%s cannot be in sync with %s: not live, or started since", listed(ineligible), show(partition))
        is_known = version >= INELIGIBLE_REPLICA_SINCE
        return ErrorCode.ineligible_replica if is_known else ErrorCode.operation_not_attempted
    return SetPartitionState(partition, asked)


def _is_eligible(context: ControllerContext, broker_id: int, wanted: WantedIsr) -> bool:
    """Not one that has started again since it had caught up: a power cut may have taken what it had (KIP-903).

    Kafka over ZooKeeper has no such check, and its leaders send no broker epochs.
    """
    if broker_id not in context.live_broker_ids:
        return False
    epoch = wanted.broker_epochs.get(broker_id, UNKNOWN_BROKER_EPOCH)
    return epoch in (UNKNOWN_BROKER_EPOCH, context.brokers[broker_id].epoch)


def _refused(outcome: ZooKeeperError) -> ErrorCode:
    if outcome is ZooKeeperError.BAD_VERSION:
        return ErrorCode.invalid_update_version
    return ErrorCode.unknown_server_error
