"""Topics that are created, grow and are deleted.

A deletion removes every replica first, then the topic's znodes (Kafka's TopicDeletionManager). It waits while a replica is
offline or the topic is reassigned.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from oncelog.cluster.controller.actions import DeleteTopic, DeleteTopicDeletion, SetTopicAssignment
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import ElectionStrategy
from oncelog.cluster.controller.partitions import change_partitions
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.requests import RequestBatch
from oncelog.cluster.controller.values import (
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicAssignment,
    TopicPartition,
)

logger = logging.getLogger("oncelog.cluster.controller")


async def change_topics(
    context: ControllerContext,
    names: Collection[str],
    new: Mapping[str, TopicAssignment],
    fresh_ids: Mapping[str, UUID],
) -> None:
    """Follows a change of `/brokers/topics`. `new` has the assignments of new topics.

    A topic without an id gets the one of `fresh_ids`.
    """
    for topic in context.topics - set(names):
        context.forget_topic(topic)
    context.topics |= new.keys()
    await take_in(context, new, fresh_ids)
    started = [(topic, number) for topic, assignment in new.items() for number in assignment.partitions]
    if new:
        logger.info("new topics: %s", ", ".join(sorted(new)))
    await _start(context, started)


async def take_in(
    context: ControllerContext, assignments: Mapping[str, TopicAssignment], fresh_ids: Mapping[str, UUID]
) -> None:
    """Adds topics to the context. A topic without an id gets one, also in ZooKeeper."""
    nameless = [topic for topic, one in assignments.items() if one.topic_id is None]
    await context.actions.write_all(
        SetTopicAssignment(topic, fresh_ids[topic], assignments[topic].partitions) for topic in nameless
    )
    for topic, one in assignments.items():
        context.name_topic(topic, one.topic_id or fresh_ids[topic])
        for number, assignment in one.partitions.items():
            context.assign((topic, number), assignment)


async def change_partitions_of(
    context: ControllerContext, topic: str, assignment: Mapping[int, ReplicaAssignment], existing: Collection[int]
) -> None:
    """Follows a change of a topic's znode: new partitions start. `existing` are the partitions with znodes of their own.

    A topic that is being deleted does not grow: its znode is set back.
    """
    added = {number: one for number, one in assignment.items() if not context.replicas((topic, number))}
    if not added or topic not in context.topics:
        return
    if topic in context.to_be_deleted:
        logger.warning("%s does not grow: it is being deleted", topic)
        restored = {number: context.assignment((topic, number)) for number in assignment if number in existing}
        await context.actions.write_all([SetTopicAssignment(topic, context.topic_ids.get(topic), restored)])
        return
    logger.info("%s has %d more partitions", topic, len(added))
    for number, one in added.items():
        context.assign((topic, number), one)
    await _start(context, [(topic, number) for number in added])


async def _start(context: ControllerContext, partitions: list[TopicPartition]) -> None:
    replicas = context.replicas_of(partitions)
    await change_partitions(context, partitions, PartitionState.NEW)
    await change_replicas(context, replicas, ReplicaState.NEW)
    await change_partitions(context, partitions, PartitionState.ONLINE, ElectionStrategy.OFFLINE)
    await change_replicas(context, replicas, ReplicaState.ONLINE)


async def queue_deletions(context: ControllerContext, topics: Collection[str]) -> None:
    """Deletes these topics once they may be deleted, and removes the orders for unknown topics."""
    unknown = sorted(set(topics) - context.topics)
    await drop_deletions(context, unknown)
    known = set(topics) & context.topics
    context.to_be_deleted |= known
    halt(context, {topic for topic, _ in context.being_reassigned} & known, "it is reassigned")
    await resume_deletions(context)


async def drop_deletions(context: ControllerContext, topics: Iterable[str]) -> None:
    await context.actions.write_all(DeleteTopicDeletion(topic) for topic in topics)


def halt(context: ControllerContext, topics: Collection[str], reason: str) -> None:
    """Lets the deletion of these topics wait."""
    halted = set(topics) & context.to_be_deleted
    context.ineligible_for_deletion |= halted
    for topic in sorted(halted):
        logger.info("the deletion of %s waits: %s", topic, reason)


async def resume_for(context: ControllerContext, topics: Collection[str]) -> None:
    """Resumes the deletion of these topics: the reason to wait may be gone."""
    queued = set(topics) & context.to_be_deleted
    if queued:
        context.ineligible_for_deletion -= queued
        await resume_deletions(context)


async def fail_deletion(context: ControllerContext, replicas: Collection[Replica]) -> None:
    """Marks replicas that were not deleted: their topics wait."""
    failed = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    if failed:
        await change_replicas(context, failed, ReplicaState.DELETION_INELIGIBLE)
        halt(context, {replica.topic for replica in failed}, "a replica was not deleted")
        await resume_deletions(context)


async def complete_deletion(context: ControllerContext, replicas: Collection[Replica]) -> None:
    """Marks replicas as deleted."""
    deleted = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    await change_replicas(context, deleted, ReplicaState.DELETION_SUCCESSFUL)
    await resume_deletions(context)


async def resume_deletions(context: ControllerContext) -> None:
    """Takes the next step of every deletion."""
    retried: list[str] = []
    eligible: list[str] = []
    for topic in sorted(context.to_be_deleted):
        states = {context.replica_states.get(replica) for replica in context.replicas_of_topic(topic)}
        is_under_way = ReplicaState.DELETION_STARTED in states
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            await _complete_deletion(context, topic)
            continue
        if not is_under_way and ReplicaState.DELETION_INELIGIBLE in states:
            retried.append(topic)
        if not is_under_way and topic not in context.ineligible_for_deletion:
            eligible.append(topic)
    if retried:
        failed = [one for topic in retried for one in context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)]
        await change_replicas(context, failed, ReplicaState.OFFLINE)
    if eligible:
        await _start_deletions(context, eligible)


async def _start_deletions(context: ControllerContext, topics: list[str]) -> None:
    logger.info("the deletion of %s begins", ", ".join(topics))
    unseen = [topic for topic in topics if topic not in context.deletion_started]
    partitions = [partition for topic in unseen for partition in context.partitions_of(topic)]
    await change_partitions(context, partitions, PartitionState.OFFLINE)
    await change_partitions(context, partitions, PartitionState.NON_EXISTENT)
    context.deletion_started.update(unseen)
    # Brokers stop serving it before its replicas are stopped.
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers, (one for topic in topics for one in context.partitions_of(topic)))
    batch.send()
    await _delete_replicas(context, topics)


async def _delete_replicas(context: ControllerContext, topics: list[str]) -> None:
    """Stops and then deletes the replicas on live brokers. Replicas on other brokers wait."""
    dead: list[Replica] = []
    alive: list[Replica] = []
    waiting: set[str] = set()
    for topic in topics:
        for replica in context.replicas_of_topic(topic):
            if not context.is_replica_online(replica.broker_id, replica.partition):
                dead.append(replica)
                waiting.add(topic)
            elif context.replica_states.get(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                alive.append(replica)
    await change_replicas(context, dead, ReplicaState.DELETION_INELIGIBLE)
    await change_replicas(context, alive, ReplicaState.OFFLINE)
    await change_replicas(context, alive, ReplicaState.DELETION_STARTED)
    halt(context, waiting, "a replica is offline")


async def _complete_deletion(context: ControllerContext, topic: str) -> None:
    deleted = context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
    await change_replicas(context, deleted, ReplicaState.NON_EXISTENT)
    await context.actions.write_all([DeleteTopic(topic)])
    context.forget_topic(topic)
    logger.info("%s is deleted", topic)
