"""Brokers of Apache Kafka 3.9.1 under a controller of ours: they lead and follow as it says."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.kafka_with_zookeeper import ZooKeeperKafkaCluster
from harness.processes import free_port
from harness.waiting import until
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.cluster.controller.znodes import decode_state, encode_topic
from oncelog.cluster.zookeeper.session import Create, Data, Delete, GetData
from oncelog.cluster.zookeeper.znodes import decode_controller, encode_reassignments, paths
from tests.cluster.controller_process import ControllerProcess

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(6)]

CONTROLLED_SHUTDOWN, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS = 7, 56, 67
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
    """One request at a time: a leader that has not been told so yet refuses the first, and may take those behind it.

    Idempotence would keep the order too, but not every controller here can be asked for producer ids.
    """
    errors: list[object] = []
    settings = {"acks": "all", "max.in.flight.requests.per.connection": 1}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
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


@pytest.fixture
def asked_controller(zookeeper):
    """One that brokers can ask: it listens where brokers talk to each other, and no client sees it."""
    made = ControllerProcess(zookeeper, CONTROLLER_ID, "INTERNAL")
    until(lambda: made.controller.is_active)
    made.register()
    yield made
    made.end()


@pytest.fixture
def asking_cluster(asked_controller, zookeeper, tmp_path):
    settings = {
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "replica.lag.time.max.ms": "2000",
    }
    made = ZooKeeperKafkaCluster(tmp_path, zookeeper_connect=zookeeper, **settings)
    for broker in made.brokers.values():
        plain, internal = f"PLAINTEXT://{broker.bootstrap_servers}", f"INTERNAL://127.0.0.1:{free_port()}"
        broker.configure(listeners=f"{plain},{internal}")
    for broker in made.brokers.values():
        broker.launch()
    # A topic that Kafka makes by itself would get replicas on the controller, which hosts none.
    create(asked_controller, "__consumer_offsets", *[(0, 1, 2)] * 5)
    made.start()
    yield made
    made.kill()


def state(controller: ControllerProcess, topic: str):
    read = controller.ask(GetData(paths.partition_state(topic, 0)))
    return decode_state((topic, 0), read) if isinstance(read, Data) else None


def test_brokers_of_kafka_ask_our_controller_for_all_that_they_ask_for(asked_controller, asking_cluster):
    """AlterPartition shrinks, expands and ends a reassignment; ControlledShutdown; AllocateProducerIds for a transaction."""
    controller, cluster = asked_controller, asking_cluster
    create(controller, "t", (2, 0))
    until(lambda: leaders(cluster, "t") == {0: 2})
    produce(cluster, "t", "a")
    cluster.brokers[0].suspend()
    until(lambda: state(controller, "t").isr == (2,))
    cluster.brokers[0].resume()
    until(lambda: sorted(state(controller, "t").isr) == [0, 2])
    controller.ask(Create(paths.REASSIGN_PARTITIONS, encode_reassignments({("t", 0): (1, 0)})))
    until(lambda: leaders(cluster, "t") == {0: 1})
    until(lambda: not isinstance(controller.ask(GetData(paths.REASSIGN_PARTITIONS)), Data))
    assert sorted(state(controller, "t").isr) == [0, 1]
    until(lambda: not (cluster.brokers[2].data_directory / "t-0").exists())
    produce(cluster, "t", "b")
    before = state(controller, "t").leader_epoch
    cluster.brokers[1].stop()
    assert controller.asked.count(CONTROLLED_SHUTDOWN) >= 1
    assert (state(controller, "t").leader, state(controller, "t").isr) == (0, (0,))
    assert state(controller, "t").leader_epoch > before
    cluster.brokers[1].start()
    until(lambda: sorted(state(controller, "t").isr) == [0, 1])
    expected = [f"{prefix}{number}" for prefix in "ab" for number in range(RECORDS)]
    assert consume(cluster, "t", 2 * RECORDS) == expected
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce("t", "c", partition=0)
    assert producer.flush(30) == 0
    assert {ALTER_PARTITION, ALLOCATE_PRODUCER_IDS} <= set(controller.asked)


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


def elected(controller: ControllerProcess) -> int | None:
    read = controller.ask(GetData(paths.CONTROLLER))
    return decode_controller(read.data).broker_id if isinstance(read, Data) else None


def elect_until(controller: ControllerProcess, wanted: Callable[[int], bool]) -> None:
    """Remove `/controller` until one is elected that is wanted: all are quick, and any may be first."""

    def depose() -> bool:
        found = elected(controller)
        if found is None or wanted(found):
            return found is not None
        controller.ask(Delete(paths.CONTROLLER))
        return False

    until(depose)


def test_control_goes_from_ours_to_kafkas_and_back(controller, cluster):
    """Each finds what the other has left, and leads on from there."""
    create(controller, "t", (2, 0, 1))
    until(lambda: leaders(cluster, "t") == {0: 2})
    produce(cluster, "t", "a")
    elect_until(controller, lambda found: found in (0, 1))
    until(lambda: not controller.controller.is_active)
    until(lambda: all(broker.known_controller() == elected(controller) for broker in cluster.brokers.values()))
    cluster.brokers[2].kill()
    until(lambda: leaders(cluster, "t") in ({0: 0}, {0: 1}))
    written_by_kafka = state(controller, "t")
    produce(cluster, "t", "b")
    elect_until(controller, lambda found: found == CONTROLLER_ID)
    until(lambda: controller.controller.is_active)
    cluster.brokers[2].start()
    create(controller, "u", (2, 1))
    until(lambda: leaders(cluster, "u") == {0: 2})
    controller.ask(Create(paths.REASSIGN_PARTITIONS, encode_reassignments({("t", 0): (2, 0, 1)})))
    until(lambda: state(controller, "t").controller_epoch > written_by_kafka.controller_epoch)
    assert state(controller, "t").leader_epoch > written_by_kafka.leader_epoch
    expected = [f"{prefix}{number}" for prefix in "ab" for number in range(RECORDS)]
    assert consume(cluster, "t", 2 * RECORDS) == expected
