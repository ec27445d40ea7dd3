"""A topic that is deleted and made again under a consumer is another one: what it has was not read."""

from __future__ import annotations

import time

import pytest

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, ClientError, NewTopic, OffsetOutOfRange, Producer, TopicPartition

SECONDS = 20


@pytest.fixture
def node(log):
    return log


@pytest.fixture
def remade(node):
    """A topic with five records, and what puts another one with so many in its place."""
    topic = unique("remade")

    def fill(count: int) -> None:
        with Client(node.bootstrap_servers) as client, Producer(node.bootstrap_servers) as producer:
            client.create_topics([NewTopic(topic, 1)])
            for number in range(count):
                producer.send(topic, b"%d of %d" % (number, count))

    def remake(count: int) -> None:
        with Client(node.bootstrap_servers) as client:
            client.delete_topics([topic])
            until(lambda: client.metadata([topic])[topic].error.name == "unknown_topic_or_partition")
        fill(count)

    fill(5)
    return topic, remake


def values(consumer, count):
    """What is read in time, whatever is said of a topic that is not there for a moment."""
    found = []
    until = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < until:
        try:
            found += [record.value for record in consumer.poll(300)]
        except OffsetOutOfRange:
            raise
        except ClientError:
            continue
    return found


@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize("group", [None, "readers"])
def test_consumer_begins_where_it_is_told_to_begin(node, face, remade, group, count):
    """An end below the position tells it, and the topic's id tells it also where there is none (KIP-516)."""
    topic, remake = remade
    with face.consumer(node.bootstrap_servers, group_id=group and f"{group}-of-{topic}") as consumer:
        if group is None:
            consumer.assign({TopicPartition(topic, 0): 0})
        else:
            consumer.subscribe([topic])
        assert values(consumer, 5) == [b"%d of 5" % number for number in range(5)]
        remake(count)
        assert values(consumer, count) == [b"%d of %d" % (number, count) for number in range(count)]


@pytest.mark.parametrize("count", [3, 7])
def test_consumer_that_is_to_choose_no_offset_says_that_the_topic_is_another(node, face, remade, count):
    topic, remake = remade
    with face.consumer(node.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        assert len(values(consumer, 5)) == 5
        remake(count)
        for _ in range(3):
            with pytest.raises(OffsetOutOfRange, match=r"offset 5 of .*, whose topic was deleted and made again"):
                values(consumer, count)
        consumer.seek(TopicPartition(topic, 0), 0)
        assert values(consumer, count) == [b"%d of %d" % (number, count) for number in range(count)]
