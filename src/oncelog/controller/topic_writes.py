"""What a broker writes into ZooKeeper for a client that makes, grows or deletes a topic: the controller hears of it by its watches.

As Kafka's AdminZkClient: the settings of a new topic first, then its replicas, so that no controller finds it without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from oncelog.controller.placement import Placement
from oncelog.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.controller.znodes import encode_topic
from oncelog.zookeeper.session import Check, Create, Multi, SetData
from oncelog.zookeeper.znodes import encode_config, paths


@dataclass(frozen=True, slots=True)
class NewTopicWrites:
    """In this order. `config` is tried first; where there is a znode of that name already, `other_config` is.

    `/controller` is checked with both: its version changes where a cluster leaves ZooKeeper, and then nobody writes any more.
    NODE_EXISTS of `topic` says that somebody else was first: TOPIC_ALREADY_EXISTS.
    """

    config: Multi
    other_config: Multi
    topic: Create


def new_topic(
    topic: str, topic_id: UUID, placement: Placement, config: Mapping[str, str], controller_version: int
) -> NewTopicWrites:
    path, data = paths.config("topics", topic), encode_config(config)
    check = Check(paths.CONTROLLER, controller_version)
    partitions = {number: ReplicaAssignment(replicas) for number, replicas in placement.items()}
    return NewTopicWrites(
        Multi((check, Create(path, data))),
        Multi((check, SetData(path, data))),
        Create(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions))),
    )


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
