"""The first event of a new controller (KafkaController.onControllerFailover)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from oncelog.cluster.controller.brokers import tell
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.leader_elections import elect_from_znode
from oncelog.cluster.controller.partitions import bring_online
from oncelog.cluster.controller.reassignment import reassign_from_znode, resume_reassignments
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.topics import drop_deletions, halt, resume_deletions, take_in
from oncelog.cluster.controller.values import (
    LeaderAndIsr,
    PartitionState,
    RegisteredBroker,
    Replica,
    ReplicaState,
    TopicAssignment,
    TopicPartition,
)

logger = logging.getLogger("oncelog.cluster.controller")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster's state in ZooKeeper. `fresh_ids` are for topics without an id."""

    brokers: Mapping[int, RegisteredBroker]
    topics: Mapping[str, TopicAssignment]
    leaders: Mapping[TopicPartition, LeaderAndIsr]
    deletions: Collection[str]
    reassignments: Mapping[TopicPartition, tuple[int, ...]] | None
    """Contents of `/admin/reassign_partitions`, if there is such a znode."""
    preferred_elections: Collection[TopicPartition] | None
    """Contents of `/admin/preferred_replica_election`, if there is such a znode."""
    fresh_ids: Mapping[str, UUID]


async def begin(context: ControllerContext, snapshot: Snapshot, *, may_delete_topics: bool) -> None:
    """Loads the context, updates every broker, and resumes the work of the controller before."""
    context.brokers.update(snapshot.brokers)
    context.topics.update(snapshot.topics)
    await take_in(context, snapshot.topics, snapshot.fresh_ids)
    context.leaders.update(snapshot.leaders)
    context.being_reassigned.update(
        partition for partition in context.partitions() if context.assignment(partition).is_being_reassigned
    )
    await _load_deletions(context, snapshot.deletions, may_delete_topics=may_delete_topics)
    # Brokers need each other's addresses before LeaderAndIsr. A broker that has just started serves clients from now on: without
    # metadata it would answer that topics do not exist.
    tell(context, context.brokers, context.partitions())
    await _start_replicas(context)
    await _start_partitions(context)
    logger.info("broker %d is the controller in epoch %d", context.controller_id, context.controller_epoch)
    resumed: set[TopicPartition] = set()
    if snapshot.reassignments is not None:
        resumed = await reassign_from_znode(context, snapshot.reassignments)
    await resume_reassignments(context, context.being_reassigned - resumed)
    if may_delete_topics:
        await resume_deletions(context)
    if snapshot.preferred_elections is not None:
        await elect_from_znode(context, snapshot.preferred_elections)


async def _load_deletions(context: ControllerContext, topics: Collection[str], *, may_delete_topics: bool) -> None:
    """Loads the orders to delete topics. A topic without znodes was nearly deleted: its order goes, too."""
    if not may_delete_topics:
        await drop_deletions(context, sorted(topics))
        return
    context.to_be_deleted.update(topics)
    halt(context, {partition[0] for partition in context.being_reassigned}, "it is reassigned")
    offline = {
        replica.topic
        for topic in context.to_be_deleted
        for replica in context.replicas_of_topic(topic)
        if not context.is_replica_online(replica.broker_id, replica.partition)
    }
    halt(context, offline, "a replica is offline")


async def _start_replicas(context: ControllerContext) -> None:
    online: list[Replica] = []
    offline: list[Replica] = []
    for replica in context.replicas_of(context.partitions()):
        if context.is_replica_online(replica.broker_id, replica.partition):
            context.replica_states[replica] = ReplicaState.ONLINE
            online.append(replica)
        else:
            # It may have been in deletion when its broker went away.
            context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
            offline.append(replica)
    await change_replicas(context, online, ReplicaState.ONLINE)
    await change_replicas(context, offline, ReplicaState.OFFLINE)


async def _start_partitions(context: ControllerContext) -> None:
    for partition in context.partitions():
        led = context.leaders.get(partition)
        if led is None:
            state = PartitionState.NEW
        elif context.is_replica_online(led.leader, partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.partition_states[partition] = state
    await bring_online(context)
