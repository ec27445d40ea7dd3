"""A source that PySpark before 4.2 does not tell where a micro-batch starts, and a broker that leads no more."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from harness.names import unique
from harness.rewriting_proxy import RewritingProxy
from oncelog.client import Client, NewTopic, Producer, TopicPartition
from oncelog.spark.offsets import from_tree
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.source.readers import StreamReader
from oncelog.testing.proxy import ApiKey

COUNT = 20
BEHIND = 12
"""Where a broker that led before says that the partition ends."""

LEADER, BEFORE = 1, 2
"""The numbers of the nodes."""


@pytest.fixture
def nodes(new_oncelog):
    """The leader of a partition, and who led it an epoch before: that one has fewer records, and has not heard of it."""
    leader, before = new_oncelog(), new_oncelog()
    for node in (leader, before):
        with Client(node.bootstrap_servers) as client:
            client.create_topics([NewTopic("in", 1, 1)])
    leader.kill()
    leader.start()
    fill(leader, COUNT)
    fill(before, BEHIND)
    with ExitStack() as stack:
        seen = {
            number: stack.enter_context(RewritingProxy(node.bootstrap_servers))
            for number, node in ((LEADER, leader), (BEFORE, before))
        }
        with Client(leader.bootstrap_servers) as client:
            topic_id = client.metadata(["in"])["in"].topic_id
        addresses = {number: proxy.bootstrap_servers for number, proxy in seen.items()}
        for number, proxy in seen.items():
            proxy.changes[ApiKey.METADATA] = partial(of_both, addresses, number, topic_id)
        yield seen[LEADER], seen[BEFORE]


def fill(node, count):
    with Producer(node.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("in", b"value-%d" % number, partition=0)


def of_both(addresses, leader_id, topic_id, message):
    """What a node says of a cluster that has both, and of a topic that it leads itself."""

    def broker(number):
        (known,) = message.brokers
        host, _, port = addresses[number].rpartition(":")
        return replace(known, node_id=type(known.node_id)(number), host=host, port=type(known.port)(int(port)))

    def led(item):
        return replace(item, leader_id=type(item.leader_id)(leader_id))

    topics = tuple(
        replace(topic, topic_id=topic_id, partitions=tuple(map(led, topic.partitions))) for topic in message.topics
    )
    return replace(message, brokers=tuple(map(broker, addresses)), topics=topics)


@pytest.fixture
def reader_of():
    readers = []

    def make(*nodes):
        options = {
            "kafka.bootstrap.servers": ",".join(node.bootstrap_servers for node in nodes),
            "subscribe": "in",
            "startingOffsets": "earliest",
            "kafka.metadata.max.age.ms": "0",
            "kafka.client.id": unique("reader"),
        }
        readers.append(StreamReader(parse_options(options, streaming=True)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def test_end_before_what_was_planned_is_not_believed_of_a_broker_that_led_before(nodes, reader_of):
    leader, before = nodes
    reader = reader_of(before, leader)
    end = {"in": {"0": COUNT}}
    reader.partitions(reader.initialOffset(), end)
    # As after an error: who leads is learned anew.
    reader.stop()
    assert from_tree(reader.latestOffset()) == from_tree(end)


def test_broker_that_led_before_is_not_asked_for_an_end_after_a_restart(nodes, reader_of):
    leader, before = nodes
    assert from_tree(reader_of(before, leader).latestOffset()) == {TopicPartition("in", 0): COUNT}
