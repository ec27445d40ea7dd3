"""Deletes topics: every replica first, then what ZooKeeper has of them (Kafka's TopicDeletionManager).

A topic waits while one of its replicas is on a broker that is away, or while it is reassigned. It goes on when the broker is
back or the reassignment is over.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.partitions import change_partitions
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.request_batch import RequestBatch
from oncelog.cluster.controller.states import PartitionState, ReplicaState
from oncelog.cluster.controller.steps import DeleteTopic, DeleteTopicDeletion, Steps, send_all, write_all
from oncelog.cluster.controller.values import Replica

logger = logging.getLogger("oncelog.cluster.controller")


def queue_deletions(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """Delete what exists of these, once it may be; the orders for the rest are removed."""
    unknown = sorted(set(topics) - context.topics)
    yield from drop_deletions(unknown)
    known = set(topics) & context.topics
    context.to_be_deleted |= known
    halt(context, {topic for topic, _ in context.being_reassigned} & known, "it is reassigned")
    yield from resume_deletions(context)


def drop_deletions(topics: Iterable[str]) -> Steps[None]:
    yield from write_all(DeleteTopicDeletion(topic) for topic in topics)


def halt(context: ControllerContext, topics: Collection[str], reason: str) -> None:
    """Those of them whose deletion was ordered wait."""
    halted = set(topics) & context.to_be_deleted
    context.ineligible_for_deletion |= halted
    for topic in sorted(halted):
        logger.info("the deletion of %s waits: %s", topic, reason)


def resume_for(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """Go on with these, for what they waited for may be over."""
    queued = set(topics) & context.to_be_deleted
    if queued:
        context.ineligible_for_deletion -= queued
        yield from resume_deletions(context)


def fail_deletion(context: ControllerContext, replicas: Collection[Replica]) -> Steps[None]:
    """These replicas could not be deleted: their topics wait."""
    failed = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    if failed:
        yield from change_replicas(context, failed, ReplicaState.DELETION_INELIGIBLE)
        halt(context, {replica.topic for replica in failed}, "a replica was not deleted")
        yield from resume_deletions(context)


def complete_deletion(context: ControllerContext, replicas: Collection[Replica]) -> Steps[None]:
    """These replicas are deleted."""
    deleted = [replica for replica in replicas if replica.topic in context.to_be_deleted]
    yield from change_replicas(context, deleted, ReplicaState.DELETION_SUCCESSFUL)
    yield from resume_deletions(context)


def resume_deletions(context: ControllerContext) -> Steps[None]:
    """Take the next step with every topic whose deletion was ordered."""
    retried: list[str] = []
    eligible: list[str] = []
    for topic in sorted(context.to_be_deleted):
        states = {context.replica_states.get(replica) for replica in context.replicas_of_topic(topic)}
        is_under_way = ReplicaState.DELETION_STARTED in states
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            yield from _complete(context, topic)
            continue
        if not is_under_way and ReplicaState.DELETION_INELIGIBLE in states:
            retried.append(topic)
        if not is_under_way and topic not in context.ineligible_for_deletion:
            eligible.append(topic)
    if retried:
        failed = [one for topic in retried for one in context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)]
        yield from change_replicas(context, failed, ReplicaState.OFFLINE)
    if eligible:
        yield from _start(context, eligible)


def _start(context: ControllerContext, topics: list[str]) -> Steps[None]:
    logger.info("the deletion of %s begins", ", ".join(topics))
    unseen = [topic for topic in topics if topic not in context.deletion_started]
    partitions = [partition for topic in unseen for partition in context.partitions_of(topic)]
    yield from change_partitions(context, partitions, PartitionState.OFFLINE)
    yield from change_partitions(context, partitions, PartitionState.NON_EXISTENT)
    context.deletion_started.update(unseen)
    # Brokers stop serving it before its replicas are stopped.
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers, (one for topic in topics for one in context.partitions_of(topic)))
    yield from send_all(batch.take())
    yield from _delete_replicas(context, topics)


def _delete_replicas(context: ControllerContext, topics: list[str]) -> Steps[None]:
    """Those on brokers that are away are left for later. The others stop to follow first, and are then deleted."""
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
    yield from change_replicas(context, dead, ReplicaState.DELETION_INELIGIBLE)
    yield from change_replicas(context, alive, ReplicaState.OFFLINE)
    yield from change_replicas(context, alive, ReplicaState.DELETION_STARTED)
    halt(context, waiting, "a replica is offline")


def _complete(context: ControllerContext, topic: str) -> Steps[None]:
    deleted = context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
    yield from change_replicas(context, deleted, ReplicaState.NON_EXISTENT)
    yield from write_all([DeleteTopic(topic)])
    context.forget_topic(topic)
    logger.info("%s is deleted", topic)
