"""Brokers of Apache Kafka 3.9.1 under a controller of ours: they lead and follow as it says."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.kafka_with_zookeeper import ZooKeeperKafkaCluster
from harness.waiting import until
from oncelog.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.controller.znodes import encode_topic
from oncelog.zookeeper.session import Create, Data, GetData
from oncelog.zookeeper.znodes import paths
from tests.broker.cluster.controller_process import ControllerProcess

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CONTROLLER_ID = 100
RECORDS = 500


@pytest.fixture
def controller(zookeeper):
    made = ControllerProcess(zookeeper, CONTROLLER_ID)
    until(lambda: made.controller.is_active)
    yield made
    made.end()


@pytest.fixture
def cluster(controller, zookeeper, tmp_path):
    made = ZooKeeperKafkaCluster(tmp_path, zookeeper_connect=zookeeper)
    made.start()
    yield made
    made.kill()


def create(controller: ControllerProcess, topic: str, *assignment: tuple[int, ...]) -> None:
    partitions = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(assignment)}
    controller.ask(Create(paths.topic(topic), encode_topic(TopicAssignment(uuid4(), partitions))))


def leaders(cluster: ZooKeeperKafkaCluster, topic: str) -> dict[int, int]:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic, timeout=10)
    return {number: one.leader for number, one in metadata.topics[topic].partitions.items()}


def produce(cluster: ZooKeeperKafkaCluster, topic: str, prefix: str) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(
            topic, f"{prefix}{number}", partition=0, on_delivery=lambda error, _: error and errors.append(error)
        )
    assert producer.flush(30) == 0
    assert errors == []


def consume(cluster: ZooKeeperKafkaCluster, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[str] = []
    while len(read) < count:
        message = consumer.poll(30)
        assert message is not None, f"only {len(read)} of {count} came"
        assert message.error() is None
        read.append(message.value().decode())
    consumer.close()
    return read


def test_brokers_of_kafka_lead_follow_and_delete_what_our_controller_says(controller, cluster):
    assert {broker.known_controller() for broker in cluster.brokers.values()} <= {CONTROLLER_ID, -1}
    create(controller, "t", (2, 0, 1), (0, 1, 2))
    until(lambda: leaders(cluster, "t") == {0: 2, 1: 0})
    produce(cluster, "t", "a")
    cluster.brokers[2].kill()
    until(lambda: leaders(cluster, "t") == {0: 0, 1: 0})
    produce(cluster, "t", "b")
    cluster.brokers[2].start()
    expected = [f"{prefix}{number}" for prefix in "ab" for number in range(RECORDS)]
    assert consume(cluster, "t", 2 * RECORDS) == expected
    directories = [broker.data_directory / "t-0" for broker in cluster.brokers.values()]
    until(lambda: all(directory.exists() for directory in directories))
    controller.ask(Create(paths.delete_topic("t")))
    until(lambda: not isinstance(controller.ask(GetData(paths.topic("t"))), Data))
    until(lambda: not any(directory.exists() for directory in directories))
