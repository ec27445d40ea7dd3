"""Topics that are made, grow and go."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from uuid import UUID

from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.elections import ElectionStrategy
from oncelog.cluster.controller.partitions import change_partitions
from oncelog.cluster.controller.replicas import change_replicas
from oncelog.cluster.controller.states import PartitionState, ReplicaState
from oncelog.cluster.controller.steps import SetTopicAssignment, Steps, write_all
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment, TopicPartition

logger = logging.getLogger("oncelog.cluster.controller")


def change_topics(
    context: ControllerContext,
    names: Collection[str],
    new: Mapping[str, TopicAssignment],
    fresh_ids: Mapping[str, UUID],
) -> Steps[None]:
    """`/brokers/topics` has others than before. `new` is what the znodes of the new ones say.

    A topic without an id gets the one of `fresh_ids`.
    """
    for topic in context.topics - set(names):
        context.forget_topic(topic)
    context.topics |= new.keys()
    yield from take_in(context, new, fresh_ids)
    started = [(topic, number) for topic, assignment in new.items() for number in assignment.partitions]
    if new:
        logger.info("new topics: %s", ", ".join(sorted(new)))
    yield from _start(context, started)


def take_in(
    context: ControllerContext, assignments: Mapping[str, TopicAssignment], fresh_ids: Mapping[str, UUID]
) -> Steps[None]:
    """Know these topics. One that has no id gets one in ZooKeeper, too."""
    nameless = [topic for topic, one in assignments.items() if one.topic_id is None]
    yield from write_all(
        SetTopicAssignment(topic, fresh_ids[topic], assignments[topic].partitions) for topic in nameless
    )
    for topic, one in assignments.items():
        context.name_topic(topic, one.topic_id or fresh_ids[topic])
        for number, assignment in one.partitions.items():
            context.assign((topic, number), assignment)


def change_partitions_of(
    context: ControllerContext, topic: str, assignment: Mapping[int, ReplicaAssignment], existing: Collection[int]
) -> Steps[None]:
    """The znode of a topic has changed: it may have grown. `existing` are the partitions that have znodes of their own.

    A topic that is deleted does not grow: its znode is set back to what there is.
    """
    added = {number: one for number, one in assignment.items() if not context.replicas((topic, number))}
    if not added or topic not in context.topics:
        return
    if topic in context.to_be_deleted:
        logger.warning("%s does not grow: it is being deleted", topic)
        restored = {number: context.assignment((topic, number)) for number in assignment if number in existing}
        yield from write_all([SetTopicAssignment(topic, context.topic_ids.get(topic), restored)])
        return
    logger.info("%s has %d more partitions", topic, len(added))
    for number, one in added.items():
        context.assign((topic, number), one)
    yield from _start(context, [(topic, number) for number in added])


def _start(context: ControllerContext, partitions: list[TopicPartition]) -> Steps[None]:
    replicas = context.replicas_of(partitions)
    yield from change_partitions(context, partitions, PartitionState.NEW)
    yield from change_replicas(context, replicas, ReplicaState.NEW)
    yield from change_partitions(context, partitions, PartitionState.ONLINE, ElectionStrategy.OFFLINE)
    yield from change_replicas(context, replicas, ReplicaState.ONLINE)
