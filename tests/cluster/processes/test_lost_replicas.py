"""All replicas of a partition but one are lost with their disks; or none in sync is left. What is there then, and who is told."""

from __future__ import annotations

import shutil

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as PlacedTopic

from harness.cluster import Cluster
from harness.waiting import until
from oncelog.client import Client, ClientError, Consumer, LogTruncated, Producer, TopicPartition
from tests.cluster.processes.replicas import wait_until_equal, wait_until_in_sync

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

THREE = ("oncelog",) * 3
ORDERS = TopicPartition("orders", 0)


def make(cluster: Cluster, replicas: list[int], **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = PlacedTopic(ORDERS.topic, 1, replica_assignment=[replicas], config=settings)
    admin.create_topics([topic])[ORDERS.topic].result(30)
    wait_until_in_sync(cluster, ORDERS.topic)


def write(servers: str, *numbers: int) -> None:
    """Each is acknowledged by all that are in sync."""
    with Producer(servers) as producer:
        for number in numbers:
            producer.send(ORDERS.topic, b"%d" % number, partition=0)
        producer.flush()


def poll(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        records = consumer.poll(30_000)
        assert records, found
        found += [int(record.value or b"") for record in records]
    return found


def read(servers: str, count: int) -> list[int]:
    with Consumer(servers) as consumer:
        consumer.assign({ORDERS: 0})
        return poll(consumer, count)


def leader_and_in_sync(servers: str) -> tuple[int, tuple[int, ...]]:
    with Client(servers) as client:
        (found,) = client.metadata([ORDERS.topic])[ORDERS.topic].partitions
    return found.leader, tuple(sorted(found.in_sync_replicas))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("survivor", [0, 2], ids=["leader", "follower"])
def test_one_of_three_replicas_has_all_that_was_acknowledged(led_cluster, survivor: int) -> None:
    """The others lose their disks at the same time. Without them nothing is acknowledged that needs two, and they come back.

    A follower that leads then may not know yet that the last records are on all replicas: with one in sync, where
    min.insync.replicas is 2, its high watermark stays where it is, as in Kafka 3.9.
    """
    cluster = led_cluster(*THREE, controller=survivor)
    make(cluster, [0, 1, 2], min_insync_replicas="2")
    write(cluster.bootstrap_servers, *range(20))
    lost = [broker for number, broker in cluster.brokers.items() if number != survivor]
    for broker in lost:
        broker.kill()
    for broker in lost:
        shutil.rmtree(broker.data_directory)
    servers = cluster.brokers[survivor].bootstrap_servers
    until(lambda: leader_and_in_sync(servers) == (survivor, (survivor,)), 60)
    if survivor == 0:
        assert read(servers, 20) == list(range(20))
    # Time enough to be told why, by a broker that has just lost the others.
    producer = Producer(servers, delivery_timeout_ms=10_000)
    refused = producer.send(ORDERS.topic, b"one is not enough", partition=0)
    with pytest.raises(ClientError, match="NOT_ENOUGH_REPLICAS"):
        refused.result()
    producer.close()
    for broker in lost:
        broker.start()
    wait_until_in_sync(cluster)
    write(cluster.bootstrap_servers, 20)
    wait_until_equal(cluster)
    assert read(cluster.bootstrap_servers, 21) == list(range(21))


@pytest.mark.drawn(8)
def test_unclean_election_loses_what_the_new_leader_lacks_and_everybody_is_told(led_cluster) -> None:
    cluster = led_cluster(*THREE, controller=2)
    make(cluster, [0, 1], min_insync_replicas="1", unclean_leader_election_enable="true")
    last, behind, controller = (cluster.brokers[number] for number in (0, 1, 2))
    servers = cluster.bootstrap_servers
    write(servers, *range(10))
    behind.kill()
    until(lambda: leader_and_in_sync(servers) == (0, (0,)), 60)
    with Consumer(servers, auto_offset_reset="none") as ours, Producer(servers) as producer:
        # Acknowledged by all that are in sync: by one.
        for number in range(10, 15):
            producer.send(ORDERS.topic, b"%d" % number, partition=0).result()
        ours.assign({ORDERS: 0})
        assert poll(ours, 15) == list(range(15))
        theirs = Theirs(servers)
        assert theirs.read(15) == list(range(15))
        last.kill()
        until(lambda: leader_and_in_sync(controller.bootstrap_servers) == (-1, (0,)), 60)
        behind.start()
        until(lambda: leader_and_in_sync(controller.bootstrap_servers) == (1, (1,)), 60)
        assert "orders-0 is led by 1 in epoch" in controller.output.read_text()
        assert "nobody in sync is alive: what the new leader does not have is lost" in controller.output.read_text()
        with pytest.raises(LogTruncated, match="orders-0 was read up to offset 15, and then cut back to 10") as told:
            poll(ours, 1)
        assert theirs.error() in (
            confluent_kafka.KafkaError._LOG_TRUNCATION,
            confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
            confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
        )
        theirs.close()
        # Whoever wrote what is lost finds the next leader, which knows nothing of that.
        producer.send(ORDERS.topic, b"100", partition=0).result()
        ours.seek(ORDERS, told.value.offset)
        assert poll(ours, 1) == [100]
    last.start()
    wait_until_in_sync(cluster)
    wait_until_equal(cluster)
    assert read(servers, 11) == [*range(10), 100]


class Theirs:
    """A consumer of librdkafka that resets nothing."""

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "error", "log_level": 0}
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.assign([confluent_kafka.TopicPartition(ORDERS.topic, 0, 0)])
        self.close = self._consumer.close

    def read(self, count: int) -> list[int]:
        found: list[int] = []

        def is_read() -> bool:
            found.extend(int(one.value()) for one in self._consumer.consume(100, 0.2) if one.error() is None)
            return len(found) >= count

        until(is_read)
        return found

    def error(self) -> int:
        codes: list[int] = []

        def is_told() -> bool:
            errors = [one.error() for one in self._consumer.consume(100, 0.2)]
            codes.extend(error.code() for error in errors if error is not None and not error.retriable())
            return bool(codes)

        until(is_told, 60)
        return codes[0]
