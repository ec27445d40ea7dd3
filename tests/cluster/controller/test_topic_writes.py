"""What a client's topic is in ZooKeeper, as Kafka's AdminZkClient writes it."""

from __future__ import annotations

from uuid import UUID

from oncelog.cluster.controller.topic_writes import grown_topic, new_topic, order_to_delete
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.cluster.zookeeper.session import Create
from oncelog.cluster.zookeeper.znodes import AssignedReplicas, TopicZnode, decode_topic

TOPIC_ID = UUID(int=7)


def test_new_topic_is_where_its_replicas_are():
    write = new_topic("t", TOPIC_ID, {0: (1, 2)})
    assert write.path == "/brokers/topics/t"
    assert decode_topic("t", write.data) == TopicZnode(TOPIC_ID, {0: AssignedReplicas((1, 2))})


def test_topic_that_grows_keeps_what_it_has_and_is_written_only_as_it_was_read():
    existing = TopicAssignment(TOPIC_ID, {0: ReplicaAssignment((1, 2))})
    write = grown_topic("t", existing, 5, {1: (2, 1)})
    assert (write.path, write.version) == ("/brokers/topics/t", 5)
    partitions = {0: AssignedReplicas((1, 2)), 1: AssignedReplicas((2, 1))}
    assert decode_topic("t", write.data) == TopicZnode(TOPIC_ID, partitions)


def test_order_to_delete_is_a_znode_of_the_name_of_the_topic():
    assert order_to_delete("t") == Create("/admin/delete_topics/t")
