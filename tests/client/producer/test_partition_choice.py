"""Where records go that were given no partition: shares, partitions that come and go, leaders that are missing."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.descriptions import PartitionDescription, TopicDescription
from oncelog.client.net.cluster import Cluster
from oncelog.client.producer.accumulator import RecordAccumulator
from oncelog.client.producer.accumulator import size_bytes as estimated_bytes
from oncelog.client.producer.partition_choice import PartitionChoice, find_partitioner
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import Node, TopicPartition
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.client.scripted import SETTINGS

TOPIC = "orders"
BATCH_BYTES = 1000


def learn(cluster: Cluster, leaders: list[int]) -> None:
    cluster.nodes = {0: Node(0, "one", 9092, None)}
    partitions = tuple(
        PartitionDescription(number, leader, 0, (0,), (0,), (), ErrorCode.none) for number, leader in enumerate(leaders)
    )
    cluster.topics[TOPIC] = TopicDescription(TOPIC, None, False, partitions, ErrorCode.none)


class Sender:
    """Gives records to an accumulator as a producer does."""

    def __init__(self, leaders: list[int], partitioner: str = "murmur2") -> None:
        self.cluster = Cluster(SETTINGS)
        learn(self.cluster, leaders)
        self.choice = PartitionChoice(self.cluster, find_partitioner(partitioner), BATCH_BYTES)
        self.accumulator = RecordAccumulator(ProducerSettings(batch_bytes=BATCH_BYTES, linger_ms=0), self.choice)

    def send(self, size_bytes: int, key: bytes | None = None) -> int:
        record = Record(key=key, value=bytes(size_bytes), timestamp_ms=0)
        chosen = self.choice.chosen(TOPIC, record)
        partition = self.accumulator.place(TOPIC, record) if chosen is None else TopicPartition(TOPIC, chosen)
        self.accumulator.append(partition, record, 0)
        return partition.partition

    def send_what_is_open(self) -> None:
        self.accumulator.close_ripe(0)


@given(st.lists(st.tuples(st.integers(1, 400), st.booleans()), min_size=200, max_size=400))
def test_each_turn_of_a_partition_brings_a_full_share_however_often_its_batches_are_sent(sizes):
    """KIP-794 §Uniform Sticky Batch Size: slow batches and quick ones give a partition the same share."""
    sender = Sender([0, 0, 0])
    sent = []
    for size_bytes, is_sent in sizes:
        sent.append(
            (sender.send(size_bytes), estimated_bytes(Record(key=None, value=bytes(size_bytes), timestamp_ms=0)))
        )
        if is_sent:
            sender.send_what_is_open()
    turns = [(partition, sum(size for _, size in run)) for partition, run in groupby(sent, key=itemgetter(0))]
    assert [partition for partition, _ in turns] == [turn % 3 for turn in range(turns[0][0], turns[0][0] + len(turns))]
    # A batch is full when the next record, of 500 bytes at most, has no room.
    assert all(BATCH_BYTES // 2 <= given_bytes < 2 * BATCH_BYTES for _, given_bytes in turns[:-1])


def test_leader_that_goes_takes_the_turn_of_its_partition_with_it():
    sender = Sender([0, 0, 0])
    first = sender.send(10)
    leaders = [0, 0, 0]
    leaders[first] = -1
    learn(sender.cluster, leaders)
    assert {sender.send(300) for _ in range(40)} == {0, 1, 2} - {first}
    learn(sender.cluster, [0, 0, 0])
    assert {sender.send(300) for _ in range(40)} == {0, 1, 2}


def test_leader_that_is_no_node_of_the_cluster_is_none():
    sender = Sender([0, 7])
    assert {sender.send(300) for _ in range(40)} == {0}


@pytest.mark.parametrize("partitioner", ["murmur2", "roundrobin"])
def test_topic_without_any_leader_uses_all_its_partitions(partitioner):
    sender = Sender([-1, -1], partitioner)
    assert {sender.send(300) for _ in range(40)} == {0, 1}


def test_key_goes_to_its_partition_whether_that_has_a_leader_or_not():
    with_leaders, without = Sender([0, 0, 0]), Sender([-1, 0, -1])
    keys = [b"key-%d" % number for number in range(30)]
    assert [with_leaders.send(1, key) for key in keys] == [without.send(1, key) for key in keys]


def test_batches_of_keys_leave_the_turn_of_the_others_alone():
    sender = Sender([0] * 4)
    first = sender.send(1)
    elsewhere = next(key for key in map(str.encode, map(str, range(100))) if sender.send(1, key) != first)
    for _ in range(20):
        sender.send(BATCH_BYTES // 2, elsewhere)
    assert sender.send(1) == first


def test_partitions_that_are_added_get_their_share():
    sender = Sender([0])
    assert sender.send(10) == 0
    learn(sender.cluster, [0, 0, 0])
    assert {sender.send(300) for _ in range(40)} == {0, 1, 2}


def test_topic_that_is_gone_keeps_the_partitions_that_were_heard_of_last():
    sender = Sender([0, 0])
    sender.send(10)
    sender.cluster.forget_topic(TOPIC)
    assert {sender.send(300) for _ in range(40)} == {0, 1}


def test_partition_is_known_below_the_number_of_partitions() -> None:
    choice = Sender([0, 0, 0]).choice
    assert [choice.knows(TOPIC, partition) for partition in (None, 0, 2, 3)] == [True, True, True, False]
    assert not choice.knows("another", None)
