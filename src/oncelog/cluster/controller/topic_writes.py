"""What a broker writes into ZooKeeper for a client that makes, grows or deletes a topic: the controller hears of it by its watches.

As Kafka's AdminZkClient. The settings of a new topic are there before this, so that no controller finds it without them.
"""

from __future__ import annotations

from uuid import UUID

from oncelog.cluster.controller.placement import Placement
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.cluster.controller.znodes import encode_topic
from oncelog.cluster.zookeeper.session import Create, SetData
from oncelog.cluster.zookeeper.znodes import paths


def new_topic(topic: str, topic_id: UUID, placement: Placement) -> Create:
    """NODE_EXISTS says that somebody else was first: TOPIC_ALREADY_EXISTS."""
    partitions = {number: ReplicaAssignment(replicas) for number, replicas in placement.items()}
    return Create(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions)))


def grown_topic(topic: str, existing: TopicAssignment, version: int, placement: Placement) -> SetData:
    """With the version that `existing` was read in: a reassignment that begins meanwhile is not undone.

    Kafka writes it whatever the version is. BAD_VERSION says to read and place anew.
    """
    added = {number: ReplicaAssignment(replicas) for number, replicas in placement.items()}
    grown = TopicAssignment(existing.topic_id, existing.partitions | added)
    return SetData(paths.topic(topic), encode_topic(grown), version)


def order_to_delete(topic: str) -> Create:
    """NODE_EXISTS says that it is being deleted already."""
    return Create(paths.delete_topic(topic))
