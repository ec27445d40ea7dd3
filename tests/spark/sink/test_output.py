"""The partitions of an output, told by nodes of which one has not heard of the newest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.names import unique
from harness.rewriting_proxy import RewritingProxy
from oncelog.client import Client, NewTopic, TopicPartition
from oncelog.spark.sink.output import TopicLimits, output_topics
from oncelog.spark.sink.settings import sink_settings
from oncelog.testing.proxy import ApiKey

BEFORE, NOW = 1, 3


class LaggingNode:
    """What Metadata says of a topic that has grown: there are two nodes, and the first that is asked has not heard of it."""

    def __init__(self, topic):
        self._topic = topic
        self.asked = 0

    def __call__(self, message):
        self.asked += 1
        (broker,) = message.brokers
        # The second is reached by another name of the same address.
        two = (broker, replace(broker, node_id=type(broker.node_id)(broker.node_id + 1), host="localhost"))
        topics = message.topics if self.asked > 1 else tuple(map(self._before, message.topics))
        return replace(message, brokers=two, topics=topics)

    def _before(self, topic):
        known = tuple(item for item in topic.partitions if item.partition_index < BEFORE)
        return replace(topic, partitions=known) if topic.name == self._topic else topic


@pytest.fixture
def grown(log):
    with Client(log.bootstrap_servers) as client:
        topic = unique("grown")
        client.create_topics([NewTopic(topic, NOW, 1)])
        yield topic


@pytest.fixture
def partitions_of(log, grown):
    """How many partitions a sink of these columns has, and how often it asks for them."""
    with RewritingProxy(log.bootstrap_servers) as proxy, Client(proxy.bootstrap_servers) as client:

        def ask(columns):
            settings = sink_settings(
                topic=grown, transactional_id=unique("copy"), bootstrap_servers=proxy.bootstrap_servers
            )
            limits = TopicLimits(client)
            limits.learn([grown])
            proxy.changes[ApiKey.METADATA] = node = LaggingNode(grown)
            topics = output_topics(client, limits, settings, columns)
            return topics.targets.partitions, node.asked

        yield ask


def test_partition_that_a_row_may_name_is_known_where_any_node_knows_it(grown, partitions_of):
    every = tuple(TopicPartition(grown, number) for number in range(NOW))
    assert partitions_of(["value", "partition"]) == (every, 2)


def test_rows_that_name_no_partition_are_worth_one_question(grown, partitions_of):
    assert partitions_of(["key", "value"]) == ((TopicPartition(grown, 0),), 1)
