"""Brokers that start, stop and shut down, and failed log directories."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import ElectionStrategy
from oncelog.cluster.controller.partitions import bring_online, change_partitions
from oncelog.cluster.controller.reassignment import resume_towards
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.topics import fail_deletion, resume_for
from oncelog.cluster.controller.values import (
    LeaderAndIsr,
    PartitionState,
    RegisteredBroker,
    Replica,
    ReplicaState,
    TopicPartition,
    listed,
    show,
)
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.cluster.controller")

STOPPED_AT_ONCE_MAX = 100
"""A broker that shuts down stops following this many partitions at once. The next ones follow when all leaders know of these.

Between a replica's last fetch and the leader's new in-sync set, nothing is committed.
"""


async def change_brokers(context: ControllerContext, registered: Mapping[int, RegisteredBroker]) -> None:
    """Follows a change of `/brokers/ids`. A broker with a new epoch was away in between, even if no watch showed it."""
    new = registered.keys() - context.brokers.keys()
    dead = context.brokers.keys() - registered.keys()
    bounced = {
        broker_id
        for broker_id in registered.keys() & context.brokers.keys()
        if registered[broker_id].epoch > context.brokers[broker_id].epoch
    }
    if new:
        context.brokers |= {broker_id: registered[broker_id] for broker_id in new}
        await _started(context, sorted(new))
    if bounced:
        _forget(context, bounced)
        await _failed(context, sorted(bounced))
        context.brokers |= {broker_id: registered[broker_id] for broker_id in bounced}
        await _started(context, sorted(bounced))
    if dead:
        _forget(context, dead)
        await _failed(context, sorted(dead))


async def modify_broker(context: ControllerContext, broker: RegisteredBroker) -> None:
    """Follows a change of a broker's listeners or features."""
    before = context.brokers.get(broker.broker_id)
    if before is None or (before.endpoints, before.features) == (broker.endpoints, broker.features):
        return
    if broker.epoch != before.epoch:
        # It has restarted: `change_brokers` sends it the full state.
        return
    context.brokers[broker.broker_id] = broker
    tell(context, context.brokers, ())


def tell(context: ControllerContext, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
    """Sends UpdateMetadata with these partitions and all brokers."""
    batch = RequestBatch(context)
    batch.add_update_metadata(broker_ids, partitions)
    batch.send()


def _forget(context: ControllerContext, broker_ids: Collection[int]) -> None:
    for broker_id in broker_ids:
        del context.brokers[broker_id]


async def _started(context: ControllerContext, broker_ids: list[int]) -> None:
    logger.info("brokers have started: %s", listed(broker_ids))
    for broker_id in broker_ids:
        context.offline_directories.pop(broker_id, None)
    tell(context, context.brokers.keys() - set(broker_ids), ())
    tell(context, broker_ids, context.with_leaders())
    # First of all: a broker deletes the checkpoints of partitions that its first LeaderAndIsr lacks.
    hosted = context.replicas_on(broker_ids)
    await change_replicas(context, hosted, ReplicaState.ONLINE)
    await bring_online(context)
    await resume_towards(context, broker_ids)
    await resume_for(context, {replica.topic for replica in hosted})


async def _failed(context: ControllerContext, broker_ids: list[int]) -> None:
    logger.info("brokers are gone: %s", listed(broker_ids))
    for broker_id in broker_ids:
        context.offline_directories.pop(broker_id, None)
        context.shutting_down.discard(broker_id)
    await take_offline(context, context.replicas_on(broker_ids))


async def take_offline(context: ControllerContext, replicas: Collection[Replica]) -> None:
    """Takes replicas offline: leaders are elected first, then the replicas leave the in-sync sets."""
    deleted = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    others = [replica for replica in replicas if replica.topic not in context.to_be_deleted]
    await change_partitions(context, context.with_offline_leader(), PartitionState.OFFLINE)
    elections = await bring_online(context)
    await change_replicas(context, others, ReplicaState.OFFLINE)
    await fail_deletion(context, deleted)
    if not others and not any(isinstance(result, LeaderAndIsr) for result in elections.values()):
        # No request was sent so far, so the brokers lack the new list of brokers.
        tell(context, context.brokers, ())


async def shut_down(
    context: ControllerContext, broker_id: int, broker_epoch: int
) -> tuple[ErrorCode, list[TopicPartition]]:
    """Elects other leaders for the partitions of a broker (ControlledShutdown). Returns the partitions that it still leads."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.broker_not_available, []
    if broker_epoch != broker.epoch:
        return ErrorCode.stale_broker_epoch, []
    logger.info("broker %d shuts down", broker_id)
    context.shutting_down.add(broker_id)
    shared = [
        partition
        for partition in context.partitions_on(broker_id)
        if len(context.replicas(partition)) > 1
        and partition in context.leaders
        and partition[0] not in context.to_be_deleted
    ]
    led = [partition for partition in shared if context.leaders[partition].leader == broker_id]
    followed = [partition for partition in shared if context.leaders[partition].leader != broker_id]
    await change_partitions(context, led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN)
    for begin in range(0, len(followed), STOPPED_AT_ONCE_MAX):
        await context.actions.await_answers()
        await _stop_following(context, broker_id, followed[begin : begin + STOPPED_AT_ONCE_MAX])
    # Once it is gone, the other brokers already know that they lead.
    await context.actions.await_answers()
    return ErrorCode.none, context.led_by(broker_id)


async def _stop_following(context: ControllerContext, broker_id: int, partitions: list[TopicPartition]) -> None:
    batch = RequestBatch(context)
    for partition in partitions:
        batch.add_stop_replica(broker_id, partition, delete=False)
    batch.send()
    replicas = [Replica(partition, broker_id) for partition in partitions]
    await change_replicas(context, replicas, ReplicaState.OFFLINE)


async def ask_for_failed_directories(context: ControllerContext, broker_ids: Collection[int]) -> None:
    """Follows notices of failed log directories: the answers to LeaderAndIsr name the offline replicas (KIP-112)."""
    await change_replicas(context, context.replicas_on(broker_ids), ReplicaState.ONLINE)


async def answered_leader_and_isr(
    context: ControllerContext, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> None:
    """Updates the offline replicas of a broker: those with KAFKA_STORAGE_ERROR are in a failed log directory."""
    before = context.offline_directories.get(broker_id, set())
    online = {partition for partition, error in errors.items() if error is ErrorCode.none}
    failed = {partition for partition, error in errors.items() if error is ErrorCode.kafka_storage_error}
    now = (before - online) | failed
    if now == before:
        return
    context.offline_directories[broker_id] = now
    offline = sorted(now - before)
    if offline:
        logger.info("broker %d has offline replicas: %s", broker_id, ", ".join(map(show, offline)))
        await take_offline(context, [Replica(partition, broker_id) for partition in offline])
