"""What a client's topic is in ZooKeeper, as Kafka's AdminZkClient writes it."""

from __future__ import annotations

from uuid import UUID

from oncelog.controller.topic_writes import grown_topic, new_topic, order_to_delete
from oncelog.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.zookeeper.session import Check, Create, Multi, SetData
from oncelog.zookeeper.znodes import AssignedReplicas, TopicZnode, decode_config, decode_topic, paths

TOPIC_ID = UUID(int=7)


def test_new_topic_has_settings_that_are_written_first_even_if_there_are_none():
    """AdminZkClient.createTopicWithAssignment: setOrCreateEntityConfigs, then the partition assignment."""
    writes = new_topic("t", TOPIC_ID, {0: (1, 2)}, {}, 3)
    check, create = writes.config.writes
    assert check == Check(paths.CONTROLLER, 3)
    assert isinstance(create, Create)
    assert (create.path, decode_config("topics", "t", create.data)) == ("/config/topics/t", {})
    assert writes.other_config == Multi((check, SetData(create.path, create.data)))
    assert writes.topic.path == "/brokers/topics/t"
    assert decode_topic("t", writes.topic.data) == TopicZnode(TOPIC_ID, {0: AssignedReplicas((1, 2))})


def test_topic_that_grows_keeps_what_it_has_and_is_written_only_as_it_was_read():
    existing = TopicAssignment(TOPIC_ID, {0: ReplicaAssignment((1, 2))})
    write = grown_topic("t", existing, 5, {1: (2, 1)})
    assert (write.path, write.version) == ("/brokers/topics/t", 5)
    partitions = {0: AssignedReplicas((1, 2)), 1: AssignedReplicas((2, 1))}
    assert decode_topic("t", write.data) == TopicZnode(TOPIC_ID, partitions)


def test_order_to_delete_is_a_znode_of_the_name_of_the_topic():
    assert order_to_delete("t") == Create("/admin/delete_topics/t")
