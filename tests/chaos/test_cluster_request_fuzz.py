"""Requests of every API and version that a member of a cluster serves, whole and broken, to each of its brokers.

What clients send takes nothing from another client. What only brokers say to each other does: there is no authorizer. But it stops
no broker either, nor does what it leaves on the disks. ONCELOG_SEED and ONCELOG_REQUESTS choose another run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from harness.oncelog_cluster import OncelogCluster
from oncelog.client import Client, Consumer, NewTopic, Producer, TopicPartition
from tests.chaos import bystander
from tests.chaos.fuzzed_cluster_frames import RandomClusterFrames, between_brokers, of_clients
from tests.chaos.fuzzed_frames import TOPICS
from tests.chaos.sending import send

pytestmark = pytest.mark.jvm

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
REQUESTS = int(os.environ.get("ONCELOG_REQUESTS", "1200"))
CHECKED_AFTER = 200
SENT_AT_ONCE = 50
BROKERS = (0, 1)
GOOD = "the-good-one"
FIRST = TopicPartition(GOOD, 0)


@pytest.fixture
def cluster(tmp_path) -> Iterator[OncelogCluster]:
    made = OncelogCluster(tmp_path, len(BROKERS), queued_max_request_bytes=str(64 * 1024 * 1024))
    made.start()
    yield made
    made.kill()


class Honest:
    """Another client: what it writes is acknowledged, and it reads all of it."""

    def __init__(self, cluster: OncelogCluster) -> None:
        self._servers = cluster.bootstrap_servers
        self._values: list[bytes] = []
        with Client(self._servers) as client:
            client.create_topics([NewTopic(GOOD, 1, 2)])

    def is_served(self) -> None:
        value = b"%d" % len(self._values)
        with Producer(self._servers) as producer:
            producer.send(GOOD, value, partition=0)
            producer.flush()
        self._values.append(value)
        found: list[bytes | None] = []
        with Consumer(self._servers) as consumer:
            consumer.assign({FIRST: 0})
            while len(found) < len(self._values):
                records = consumer.poll(30_000)
                assert records, found
                found += [record.value for record in records]
        assert found == self._values


def test_requests_of_every_kind_stop_no_member(cluster: OncelogCluster) -> None:
    honest = Honest(cluster)
    others = [bystander.start(cluster.brokers[one].port) for one in BROKERS]
    answered = attack(
        cluster, RandomClusterFrames(SEED, topic_ids(cluster), of_clients(), BROKERS), REQUESTS * 2 // 3, honest
    )
    waits = [bystander.stop(one) for one in others]
    assert all(one.asked > 0 for one in waits)
    orders = RandomClusterFrames(SEED, topic_ids(cluster), between_brokers(), BROKERS)
    note_epochs(cluster, orders)
    answered += attack(cluster, orders, REQUESTS // 3)
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.start()
    honest.is_served()
    print(
        f"seed {SEED}: {REQUESTS} requests, {answered} answered; others asked {sum(one.asked for one in waits)} times, "
        f"waited over 100 ms {sum(one.long for one in waits)} times, {max(one.slowest_ms for one in waits):.0f} ms at most"
    )


def attack(cluster: OncelogCluster, frames: RandomClusterFrames, count: int, honest: Honest | None = None) -> int:
    answered = 0
    for number in range(0, count, SENT_AT_ONCE):
        broker = cluster.brokers[number // SENT_AT_ONCE % len(BROKERS)]
        answered += send(broker.port, [frames.frame() for _ in range(SENT_AT_ONCE)])
        if (number + SENT_AT_ONCE) % CHECKED_AFTER == 0:
            for one in cluster.brokers.values():
                assert one.is_running, one.tail()
                assert "Traceback" not in one.tail(1_000_000), one.tail()
            if honest is not None:
                honest.is_served()
    return answered


def topic_ids(cluster: OncelogCluster) -> list[uuid.UUID]:
    """Those of the topics that frames name, which are made where they are not there."""
    with Client(cluster.bootstrap_servers) as client:
        known = client.metadata()
        client.create_topics([NewTopic(name, 2, 2) for name in TOPICS if name not in known])
        return [topic.topic_id for name, topic in client.metadata(TOPICS).items() if topic.topic_id is not None]


def note_epochs(cluster: OncelogCluster, frames: RandomClusterFrames) -> None:
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start(30)
    try:
        epoch, _ = zookeeper.get("/controller_epoch")
        frames.controller_epoch = int(epoch)
        frames.broker_epochs = [zookeeper.get(f"/brokers/ids/{one}")[1].czxid for one in BROKERS]
    finally:
        zookeeper.stop()
        zookeeper.close()
