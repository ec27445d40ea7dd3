"""How long one callback of the broker's event loop takes, under loads that are large in one way or another.

What is measured is the processor time of the loop's thread, collections of garbage included, so that a busy machine makes
no difference; and how long a fixed piece of work takes at that time, as the processors of a shared machine do not always run
at one speed. While a broker starts, nobody is served: that is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.members import Members
from tests.support.consumer_group_requests import HEARTBEAT, beat_fields, commit_fields, join_fields
from tests.support.waiting import until
from tests.support.watched_node import WatchedNode
from tests.support.wire import Connection, frame

LIMIT_MS = 20
LARGE_LIMIT_MS = 60
"""For one request that asks for the work of thousands: such requests are rare, and their cost must not grow by another order."""
ADDITIONS, ADDITIONS_MS = 1_000_000, 100
"""Work for the interpreter, and how long it takes where the limits hold as they are."""
PARTITIONS, MEMBERS = 10_000, 100
REBALANCING, REBALANCED = 50, 100
COMMITTED = 1000
SETTINGS = {
    "group_consumer_heartbeat_interval_ms": "200",
    "group_consumer_min_heartbeat_interval_ms": "200",
    "group_consumer_assignment_interval_ms": "0",
    "log_retention_check_interval_ms": "1000",
    "log_flush_offset_checkpoint_interval_ms": "1000",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    """A broker that has a topic of ten thousand partitions, and housekeeping that is busy all the time."""
    node = WatchedNode(tmp_path_factory.mktemp("watched"), **SETTINGS)
    node.start()
    with nothing_blocks(node):
        create(node, NewTopic("large", PARTITIONS, 1))
    yield node
    administrator = admin(node)
    with nothing_blocks(node, LARGE_LIMIT_MS):
        administrator.delete_topics(["large"])["large"].result(60)
    node.stop()


@contextmanager
def nothing_blocks(node: WatchedNode, limit_ms: float = LIMIT_MS) -> Iterator[None]:
    """No callback takes long, and none waits for the disk."""
    node.watched()
    slowness = slowness_now()
    yield
    found = node.watched()
    slowness = max(slowness, slowness_now())
    assert found.longest_ms < limit_ms * slowness, (slowness, found.callbacks[:5])
    assert found.synced == ()


def slowness_now() -> float:
    """How many times slower this machine is at the moment than where the limits hold, 1 or more."""
    began_s = time.thread_time()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return max(1.0, (time.thread_time() - began_s) * 1000 / ADDITIONS_MS)


def admin(node: WatchedNode) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})


def create(node: WatchedNode, *topics: NewTopic) -> None:
    administrator = admin(node)
    for made in administrator.create_topics(list(topics)).values():
        made.result(60)


def test_making_many_partitions_blocks_nobody(node):
    administrator = admin(node)
    with nothing_blocks(node):
        create(node, *(NewTopic(f"small-{number}", 10, 1) for number in range(50)))
        administrator.create_partitions([NewPartitions("small-0", 1000)])["small-0"].result(60)


def test_metadata_of_ten_thousand_partitions_blocks_nobody(node):
    everything = frame(
        "metadata",
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )
    connection = Connection(node.bootstrap_servers)
    with nothing_blocks(node):
        for _ in range(5):
            connection.socket.sendall(everything)
            assert len(connection.receive_frame()) > PARTITIONS * 20
        # One after the other, and not all of them before anybody else is served.
        connection.socket.sendall(everything * 20)
        for _ in range(20):
            connection.receive_frame()
    connection.close()


def test_offsets_of_a_thousand_partitions_block_nobody(node):
    connection = Connection(node.bootstrap_servers)
    until(
        lambda: not connection.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"]).coordinators[0].error_code
    )
    fetched = {"name": "large", "partition_indexes": list(range(COMMITTED))}
    for turn in range(3):
        offsets = dict.fromkeys(range(COMMITTED), turn)
        with nothing_blocks(node, LARGE_LIMIT_MS):
            connection.ask("offset_commit", 8, **commit_fields(8, "offsets", ("large", None), offsets, "", -1))
        with nothing_blocks(node):
            for topics in ([fetched], None):
                groups = [{"group_id": "offsets", "topics": topics}]
                answer = connection.ask("offset_fetch", 8, groups=groups, require_stable=True)
                (topic,) = answer.groups[0].topics
                assert {one.partition_index: one.committed_offset for one in topic.partitions} == offsets
    connection.close()


@pytest.mark.parametrize(("assignor", "count"), [("uniform", MEMBERS), ("range", MEMBERS // 5)])
def test_assigning_ten_thousand_partitions_to_a_hundred_members_blocks_nobody(node, assignor, count):
    """KIP-848: the broker assigns, each time that a member comes or goes."""
    connection = Connection(node.bootstrap_servers)
    group = f"large-{assignor}"

    def beat(fields: dict[str, Any]) -> Any:
        return connection.ask("consumer_group_heartbeat", HEARTBEAT, **fields)

    members: dict[str, int] = {}
    with nothing_blocks(node, LARGE_LIMIT_MS):
        for number in range(count):
            member_id = f"member-{number}"
            joined = beat(join_fields(HEARTBEAT, group, member_id, ["large"], assignor=assignor))
            members[member_id] = joined.member_epoch
        assert joined.member_epoch > count
        for member_id, epoch in members.items():
            beat(beat_fields(HEARTBEAT, group, member_id, epoch))
        beat(beat_fields(HEARTBEAT, group, member_id, -1))
    connection.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_of_fifty_members_blocks_nobody(node, protocol):
    topic = f"rebalanced-{protocol}"
    create(node, NewTopic(topic, REBALANCED, 1))
    settings = {"group.id": topic, "group.protocol": protocol}
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 200
    members = Members(node.bootstrap_servers, topic, REBALANCED, settings)
    with nothing_blocks(node):
        members.seconds_until_settled(lambda: members.join(REBALANCING))
        members.seconds_until_settled(members.leave_one)
        members.leave_all()


def test_producing_fetching_rolling_and_deleting_segments_block_nobody(node):
    """Segments of 1 MB, of which retention keeps 2 MB in each partition."""
    config = {"segment.bytes": "1048576", "retention.bytes": "2097152", "file.delete.delay.ms": "0"}
    create(node, NewTopic("rolled", 4, 1, config=config))
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 5, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "rolled", "log_level": 0})
    partitions = [TopicPartition("rolled", partition, 0) for partition in range(4)]
    consumer.assign(partitions)
    with nothing_blocks(node):
        for number in range(40_000):
            producer.produce("rolled", bytes(500), partition=number % 4)
            if number % 1000 == 0:
                producer.poll(0)
                consumer.consume(1000, 0)
        producer.flush(30)
        until(lambda: all(consumer.get_watermark_offsets(partition)[0] > 0 for partition in partitions))
    consumer.close()
