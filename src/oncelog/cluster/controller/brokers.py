"""Brokers that come, go and shut down, and log directories that fail."""

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
"""Of so many partitions at once a broker that shuts down ceases to follow the leaders, and the next only when all know of it.

From when a replica follows no more until its leader knows that it is not in sync any more, nothing is committed.
"""


async def change_brokers(context: ControllerContext, registered: Mapping[int, RegisteredBroker]) -> None:
    """`/brokers/ids` has others than before. A broker with another epoch was away in between, even if nobody saw it."""
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
    """The znode of a broker has changed, for it listens elsewhere, or supports other features."""
    before = context.brokers.get(broker.broker_id)
    if before is None or (before.endpoints, before.features) == (broker.endpoints, broker.features):
        return
    if broker.epoch != before.epoch:
        # It has started again, and is to be told everything: `change_brokers` sees to that, unless it knows the epoch.
        return
    context.brokers[broker.broker_id] = broker
    tell(context, context.brokers, ())


def tell(context: ControllerContext, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
    """UpdateMetadata with these partitions, and all brokers."""
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
    # Before anything else a broker hears of all it hosts: what is not in that request it deletes the checkpoints of.
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
    """These replicas are offline. Leaders are elected first, then the replicas leave the in-sync ones."""
    deleted = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    others = [replica for replica in replicas if replica.topic not in context.to_be_deleted]
    await change_partitions(context, context.with_offline_leader(), PartitionState.OFFLINE)
    elections = await bring_online(context)
    await change_replicas(context, others, ReplicaState.OFFLINE)
    await fail_deletion(context, deleted)
    if not others and not any(isinstance(result, LeaderAndIsr) for result in elections.values()):
        # Nobody was told anything yet, not even which brokers there are.
        tell(context, context.brokers, ())


async def shut_down(
    context: ControllerContext, broker_id: int, broker_epoch: int
) -> tuple[ErrorCode, list[TopicPartition]]:
    """ControlledShutdown: give the leaders of a broker to others. Returned is what it still leads."""
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
    # When it is gone, whoever comes to another broker is to find that it leads.
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
    """These brokers say that a log directory has failed. LeaderAndIsr asks them which replicas that concerns (KIP-112)."""
    await change_replicas(context, context.replicas_on(broker_ids), ReplicaState.ONLINE)


async def answered_leader_and_isr(
    context: ControllerContext, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> None:
    """KAFKA_STORAGE_ERROR says that a replica is in a log directory that has failed, no error that it is not."""
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
