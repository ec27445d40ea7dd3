"""The brokers of Apache Kafka with ZooKeeper that tests run against."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kazoo.client import KazooClient

from harness.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(8)]


def is_led(cluster, by: int, in_sync: list[int]) -> bool:
    """Any broker may be asked, and one hears of a new topic later than the one that made it."""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics("t", timeout=10)
    found = metadata.topics["t"].partitions.get(0)
    return found is not None and (found.leader, sorted(found.isrs)) == (by, in_sync)


def test_killed_leader_is_replaced_and_comes_back(new_kafka_cluster):
    cluster = new_kafka_cluster()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[2, 0, 1]])])["t"].result(30)
    until(lambda: is_led(cluster, 2, [0, 1, 2]))
    cluster.brokers[2].kill()
    until(lambda: is_led(cluster, 0, [0, 1]))
    cluster.start()
    until(lambda: any(is_led(cluster, by, [0, 1, 2]) for by in (0, 2)))


def test_settings_are_a_clusters_and_a_brokers_own(new_kafka_cluster):
    cluster = new_kafka_cluster(2, num_partitions="3", own={1: {"num.partitions": "4"}})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    brokers = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in (0, 1)]
    answers = [admin.describe_configs([broker])[broker].result(30) for broker in brokers]
    assert [answer["num.partitions"].value for answer in answers] == ["3", "4"]


def test_suspended_broker_loses_its_session_and_gets_another(new_kafka_cluster):
    cluster = new_kafka_cluster(2)
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start(30)
    try:
        controller = cluster.controller
        other = next(broker for broker in cluster.brokers.values() if broker is not controller)
        controller.suspend()
        until(lambda: other.known_controller() == other.broker_id)
        assert json.loads(zookeeper.get("/controller")[0])["brokerid"] == other.broker_id
        # The session that held both nodes ends, and a server deletes one after the other.
        until(lambda: zookeeper.get_children("/brokers/ids") == [str(other.broker_id)])
        controller.resume()
        until(lambda: other.known_brokers() == {0, 1})
        # The one that slept believes that it is the controller until it has heard of its successor.
        until(lambda: controller.known_controller() == other.broker_id)
    finally:
        zookeeper.stop()
        zookeeper.close()
    assert cluster.controller is other
