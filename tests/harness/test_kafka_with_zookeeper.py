"""The brokers of Apache Kafka with ZooKeeper that tests run against."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kazoo.client import KazooClient

from harness.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def partition(cluster, topic: str):
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic, timeout=10)
    return metadata.topics[topic].partitions[0]


def test_killed_leader_is_replaced_and_comes_back(new_kafka_cluster):
    cluster = new_kafka_cluster()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[2, 0, 1]])])["t"].result(30)
    until(lambda: partition(cluster, "t").leader == 2)
    cluster.brokers[2].kill()
    until(lambda: partition(cluster, "t").leader == 0 and sorted(partition(cluster, "t").isrs) == [0, 1])
    cluster.start()
    until(lambda: sorted(partition(cluster, "t").isrs) == [0, 1, 2])


def test_settings_are_a_clusters_and_a_brokers_own(new_kafka_cluster):
    cluster = new_kafka_cluster(2, num_partitions="3", own={1: {"num.partitions": "4"}})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    brokers = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in (0, 1)]
    answers = [admin.describe_configs([broker])[broker].result(30) for broker in brokers]
    assert [answer["num.partitions"].value for answer in answers] == ["3", "4"]


def test_suspended_broker_loses_its_session_and_gets_another(new_kafka_cluster):
    cluster = new_kafka_cluster(2, zookeeper_session_timeout_ms="1500")
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start(30)
    try:
        controller = cluster.controller
        other = next(broker for broker in cluster.brokers.values() if broker is not controller)
        controller.suspend()
        until(lambda: other.known_controller() == other.broker_id)
        assert json.loads(zookeeper.get("/controller")[0])["brokerid"] == other.broker_id
        assert zookeeper.get_children("/brokers/ids") == [str(other.broker_id)]
        controller.resume()
        until(lambda: other.known_brokers() == {0, 1})
    finally:
        zookeeper.stop()
        zookeeper.close()
    assert cluster.controller is other
