"""State transitions of replicas; offline replicas leave the in-sync set (Kafka's ZkReplicaStateMachine)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from oncelog.cluster.controller.actions import SetPartitionState
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import without_replica
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.values import (
    REPLICA_TRANSITIONS,
    LeaderAndIsr,
    Replica,
    ReplicaState,
    TopicPartition,
    listed,
    show,
)
from oncelog.cluster.zookeeper.session import ZooKeeperError

logger = logging.getLogger("oncelog.cluster.controller")


async def change_replicas(context: ControllerContext, replicas: Iterable[Replica], target: ReplicaState) -> None:
    """Moves replicas to a state; invalid transitions are logged. The requests to brokers leave as one batch."""
    batch = RequestBatch(context)
    by_broker: dict[int, list[Replica]] = {}
    for replica in replicas:
        if _may_become(context, replica, target):
            by_broker.setdefault(replica.broker_id, []).append(replica)
    for broker_id, of_broker in sorted(by_broker.items()):
        match target:
            case ReplicaState.NEW:
                _start(context, batch, of_broker)
            case ReplicaState.ONLINE:
                _bring_online(context, batch, of_broker)
            case ReplicaState.OFFLINE:
                await _take_offline(context, batch, broker_id, of_broker)
            case ReplicaState.NON_EXISTENT:
                _forget(context, of_broker)
            case _:
                for replica in of_broker:
                    if target is ReplicaState.DELETION_STARTED:
                        batch.add_stop_replica(broker_id, replica.partition, delete=True)
                    context.replica_states[replica] = target
    batch.send()


def _may_become(context: ControllerContext, replica: Replica, target: ReplicaState) -> bool:
    state = context.replica_states.setdefault(replica, ReplicaState.NON_EXISTENT)
    if state in REPLICA_TRANSITIONS[target]:
        return True
    where = f"replica {replica.broker_id} of {show(replica.partition)}"
    logger.debug("%s is %s and cannot become %s", where, state.value, target.value)
    return False


def _start(context: ControllerContext, batch: RequestBatch, replicas: list[Replica]) -> None:
    """Starts assigned replicas. If the partition has a leader, they follow it; else the first election sends LeaderAndIsr."""
    for replica in replicas:
        led = context.leaders.get(replica.partition)
        if led is not None and led.leader == replica.broker_id:
            where = f"replica {replica.broker_id} of {show(replica.partition)}"
            logger.error("%s cannot become NewReplica: it leads the partition", where)
            continue
        if led is not None:
            assignment = context.assignment(replica.partition)
            batch.add_leader_and_isr((replica.broker_id,), replica.partition, led, assignment, is_new=True)
        context.replica_states[replica] = ReplicaState.NEW


def _bring_online(context: ControllerContext, batch: RequestBatch, replicas: list[Replica]) -> None:
    for replica in replicas:
        led = context.leaders.get(replica.partition)
        assignment = context.assignment(replica.partition)
        if context.replica_states[replica] is ReplicaState.NEW:
            assert replica.broker_id in assignment.replicas, "a replica is assigned before it starts"
        elif led is not None:
            batch.add_leader_and_isr((replica.broker_id,), replica.partition, led, assignment, is_new=False)
        context.replica_states[replica] = ReplicaState.ONLINE


async def _take_offline(
    context: ControllerContext, batch: RequestBatch, broker_id: int, replicas: list[Replica]
) -> None:
    for replica in replicas:
        batch.add_stop_replica(broker_id, replica.partition, delete=False)
    with_leaders = [replica.partition for replica in replicas if replica.partition in context.leaders]
    without = [replica for replica in replicas if replica.partition not in context.leaders]
    left = await _remove_from_isr(context, broker_id, with_leaders)
    for partition, state in left.items():
        if partition[0] not in context.to_be_deleted:
            assignment = context.assignment(partition)
            others = [replica for replica in assignment.replicas if replica != broker_id]
            batch.add_leader_and_isr(others, partition, state, assignment, is_new=False)
        context.replica_states[Replica(partition, broker_id)] = ReplicaState.OFFLINE
    for replica in without:
        batch.add_update_metadata(context.brokers, (replica.partition,))
        context.replica_states[replica] = ReplicaState.OFFLINE


async def _remove_from_isr(
    context: ControllerContext, broker_id: int, partitions: list[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr]:
    """Removes a broker from in-sync sets. Returns the states of partitions without it, also of those that lacked it before."""
    left: dict[TopicPartition, LeaderAndIsr] = {}
    known = {partition: context.leaders[partition] for partition in partitions}
    while known:
        updates = [
            SetPartitionState(partition, without_replica(led, broker_id).by(context.controller_epoch))
            for partition, led in known.items()
            if broker_id in led.isr
        ]
        outcomes = await context.actions.write_all(updates)
        for partition, led in known.items():
            if broker_id not in led.isr:
                left[partition] = led.by(context.controller_epoch)
        again = []
        for update, outcome in zip(updates, outcomes, strict=True):
            if outcome is ZooKeeperError.BAD_VERSION:
                again.append(update.partition)
            elif isinstance(outcome, ZooKeeperError):
                where = f"replica {broker_id} of {show(update.partition)}"
                logger.error("%s cannot become OfflineReplica: %s", where, outcome.name)
            else:
                state = left[update.partition] = update.state.written(outcome)
                message = "%s has lost the replica on %d, leader %d in epoch %d, in sync: %s"
                epoch, isr = state.leader_epoch, listed(state.isr)
                logger.info(message, show(update.partition), broker_id, state.leader, epoch, isr)
        known = await context.actions.read_states(again)
        known = {partition: led for partition, led in known.items() if led.controller_epoch <= context.controller_epoch}
    context.leaders.update(left)
    return left


def _forget(context: ControllerContext, replicas: list[Replica]) -> None:
    """Removes replicas from the context. The caller writes or deletes the assignment in ZooKeeper."""
    for replica in replicas:
        context.assign(replica.partition, context.assignment(replica.partition).remove(replica.broker_id))
        del context.replica_states[replica]
