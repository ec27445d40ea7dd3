"""How long one callback of the broker's event loop takes, under loads that are large in one way or another.

What is measured is the processor time of the loop's thread, collections of garbage included, so that a busy machine makes
no difference; and how long a fixed piece of work takes at that time, as the processors of a shared machine do not always run
at one speed. A virtual machine that is held up counts that as its own time, so what is seen is the work or more than it:
each load runs several times, and the least of what was seen is compared with the limit. While a broker starts, nobody is
served: that is left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from harness.consumer_group_requests import HEARTBEAT, beat_fields, commit_fields, join_fields
from harness.members import Members
from harness.waiting import until
from harness.watched_node import Watched, WatchedNode
from harness.wire import Connection, frame

pytestmark = pytest.mark.drawn(4, together=True)

LIMIT_MS = 20
ASSIGNING_LIMIT_MS = 60
"""For the one heartbeat that assigns ten thousand partitions anew: the assignment of a group is one decision."""
ADDITIONS, ADDITIONS_MS, PAUSE_S = 200_000, 20, 0.1
"""Work for the interpreter, how long it takes where the limits hold as they are, and the pause before it is done again."""
ROUNDS = 3
"""How often each load runs."""
PARTITIONS, MEMBERS = 10_000, 100
REBALANCING, REBALANCED = 50, 100
COMMITTED = 1000
COMPACTED = 15_000
SETTINGS = {
    "group_consumer_heartbeat_interval_ms": "200",
    "group_consumer_min_heartbeat_interval_ms": "200",
    "group_consumer_assignment_interval_ms": "0",
    "log_retention_check_interval_ms": "1000",
    "log_cleaner_backoff_ms": "200",
    "log_flush_offset_checkpoint_interval_ms": "1000",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    """A broker that has a topic of ten thousand partitions, and housekeeping that is busy all the time."""
    node = WatchedNode(tmp_path_factory.mktemp("watched"), **SETTINGS)
    node.start()
    administrator = admin(node)

    def make(round_: int) -> None:
        create(node, NewTopic(f"large-{round_}", PARTITIONS, 1))

    def delete(round_: int) -> None:
        administrator.delete_topics([f"large-{round_}"])[f"large-{round_}"].result(60)

    nobody_is_blocked(node, make)
    nobody_is_blocked(node, delete)
    create(node, NewTopic("large", PARTITIONS, 1))
    yield node
    node.stop()


def nobody_is_blocked(node: WatchedNode, load: Callable[[int], None], limit_ms: float = LIMIT_MS) -> None:
    """Run `load`, which is given the round's number: no callback takes long in each round, and none waits for the disk."""
    seen = [_watch(node, load, round_) for round_ in range(ROUNDS)]
    slowness, least = min(seen, key=lambda one: one[1].longest_ms / one[0])
    assert least.longest_ms < limit_ms * slowness, [(slowness, found.callbacks[:5]) for slowness, found in seen]
    assert [found.synced for _, found in seen] == [()] * ROUNDS


def _watch(node: WatchedNode, load: Callable[[int], None], round_: int) -> tuple[float, Watched]:
    node.watched()
    with Slowness() as slowness:
        load(round_)
    return slowness.most, node.watched()


class Slowness:
    """How many times slower this machine is at its slowest than where the limits hold, 1 or more.

    It is looked at again and again while the load runs, with as much work as a callback may do: what slows the machine down
    for a moment then shows here as it does there.
    """

    def __init__(self) -> None:
        self.most = 1.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Slowness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            began_s = time.thread_time()
            total = 0
            for number in range(ADDITIONS):
                total += number
            self.most = max(self.most, (time.thread_time() - began_s) * 1000 / ADDITIONS_MS)
            if self._is_over.wait(PAUSE_S):
                return


def admin(node: WatchedNode) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})


def create(node: WatchedNode, *topics: NewTopic) -> None:
    administrator = admin(node)
    for made in administrator.create_topics(list(topics)).values():
        made.result(60)


def test_making_many_partitions_blocks_nobody(node):
    administrator = admin(node)

    def make(round_: int) -> None:
        create(node, *(NewTopic(f"small-{round_}-{number}", 10, 1) for number in range(50)))
        grown = f"small-{round_}-0"
        administrator.create_partitions([NewPartitions(grown, 1000)])[grown].result(60)

    nobody_is_blocked(node, make)


def test_metadata_of_ten_thousand_partitions_blocks_nobody(node):
    everything = frame(
        "metadata",
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )
    connection = Connection(node.bootstrap_servers)

    def ask(_: int) -> None:
        for _ in range(5):
            connection.socket.sendall(everything)
            assert len(connection.receive_frame()) > PARTITIONS * 20
        # One after the other, and not all of them before anybody else is served.
        connection.socket.sendall(everything * 20)
        for _ in range(20):
            connection.receive_frame()

    nobody_is_blocked(node, ask)
    connection.close()


def test_offsets_of_a_thousand_partitions_block_nobody(node):
    connection = Connection(node.bootstrap_servers)
    until(
        lambda: not connection.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"]).coordinators[0].error_code
    )
    fetched = {"name": "large", "partition_indexes": list(range(COMMITTED))}

    def commit(round_: int) -> None:
        offsets = dict.fromkeys(range(COMMITTED), round_)
        connection.ask("offset_commit", 8, **commit_fields(8, "offsets", ("large", None), offsets, "", -1))

    def fetch(_: int) -> None:
        for topics in ([fetched], None):
            groups = [{"group_id": "offsets", "topics": topics}]
            answer = connection.ask("offset_fetch", 8, groups=groups, require_stable=True)
            (topic,) = answer.groups[0].topics
            found = {one.partition_index: one.committed_offset for one in topic.partitions}
            assert found == dict.fromkeys(range(COMMITTED), ROUNDS - 1)

    nobody_is_blocked(node, commit)
    nobody_is_blocked(node, fetch)
    connection.close()


@pytest.mark.parametrize(("assignor", "count"), [("uniform", MEMBERS), ("range", MEMBERS // 5)])
def test_assigning_ten_thousand_partitions_to_a_hundred_members_blocks_nobody(node, assignor, count):
    """KIP-848: the broker assigns, each time that a member comes or goes."""
    connection = Connection(node.bootstrap_servers)

    def beat(fields: dict[str, Any]) -> Any:
        return connection.ask("consumer_group_heartbeat", HEARTBEAT, **fields)

    def come_and_go(round_: int) -> None:
        group = f"large-{assignor}-{round_}"
        members: dict[str, int] = {}
        for number in range(count):
            member_id = f"member-{number}"
            joined = beat(join_fields(HEARTBEAT, group, member_id, ["large"], assignor=assignor))
            members[member_id] = joined.member_epoch
        assert joined.member_epoch > count
        for member_id, epoch in members.items():
            beat(beat_fields(HEARTBEAT, group, member_id, epoch))
        for member_id in members:
            beat(beat_fields(HEARTBEAT, group, member_id, -1))

    nobody_is_blocked(node, come_and_go, ASSIGNING_LIMIT_MS)
    connection.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_of_fifty_members_blocks_nobody(node, protocol):
    def rebalance(round_: int) -> None:
        topic = f"rebalanced-{protocol}-{round_}"
        create(node, NewTopic(topic, REBALANCED, 1))
        settings = {"group.id": topic, "group.protocol": protocol}
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 200
        members = Members(node.bootstrap_servers, topic, REBALANCED, settings)
        members.seconds_until_settled(lambda: members.join(REBALANCING))
        members.seconds_until_settled(members.leave_one)
        members.leave_all()

    nobody_is_blocked(node, rebalance)


def test_producing_fetching_rolling_and_deleting_segments_block_nobody(node):
    """Segments of 1 MB, of which retention keeps 2 MB in each partition."""

    def roll(round_: int) -> None:
        topic = f"rolled-{round_}"
        config = {"segment.bytes": "1048576", "retention.bytes": "2097152", "file.delete.delay.ms": "0"}
        create(node, NewTopic(topic, 4, 1, config=config))
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 5, "log_level": 0})
        consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "rolled", "log_level": 0})
        partitions = [TopicPartition(topic, partition, 0) for partition in range(4)]
        consumer.assign(partitions)
        for number in range(40_000):
            producer.produce(topic, bytes(500), partition=number % 4)
            if number % 1000 == 0:
                producer.poll(0)
                consumer.consume(1000, 0)
        producer.flush(30)
        until(lambda: all(consumer.get_watermark_offsets(partition)[0] > 0 for partition in partitions))
        consumer.close()

    nobody_is_blocked(node, roll)


def test_compaction_blocks_nobody(node):
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0, "linger.ms": 5})
    configs = {"cleanup.policy": "compact", "segment.bytes": str(2**20), "min.cleanable.dirty.ratio": "0"}

    def compact(round_: int) -> None:
        topic = f"compacted-{round_}"
        create(node, NewTopic(topic, 1, 1, config=configs))
        for number in range(COMPACTED):
            producer.produce(topic, key=b"%d" % (number % 1000), value=b"%d" % number + bytes(100))
            producer.poll(0)
            if not number % 5000:
                producer.flush(30)
        producer.flush(30)
        checkpoint = node.data_directory / "cleaner-offset-checkpoint"
        until(lambda: checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text(), 30)

    nobody_is_blocked(node, compact)
