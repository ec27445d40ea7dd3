"""What has been looked at for a transaction that hangs, and what has to be looked at before the next write."""

from __future__ import annotations

import pytest

from harness.names import unique
from harness.shared_producer import Cluster
from oncelog.client import Client, TopicPartition
from oncelog.spark.sink.hanging import SettledPartitions


@pytest.fixture
def cluster(oncelog_broker):
    return Cluster(oncelog_broker)


@pytest.fixture
def client(oncelog_broker):
    with Client(oncelog_broker.bootstrap_servers) as client:
        yield client


def settled_in(client: Client, partition: TopicPartition) -> SettledPartitions:
    """Of a transactional id of its own, after a look at one partition and at the group."""
    name = unique("settled")
    settled = SettledPartitions(client, name, name)
    client.metadata([partition.topic])
    assert not settled.are_known([partition], with_offsets=True)
    settled.committed([])
    client.metadata([*settled.topics, partition.topic])
    settled.look([partition], [])
    assert settled.are_known([partition], with_offsets=True)
    assert settled.are_known([partition], with_offsets=False)
    return settled


def test_partition_that_was_not_looked_at_is_not_known(cluster, client):
    first, other = (TopicPartition(cluster.create_topic(1), 0) for _ in range(2))
    settled = settled_in(client, first)
    client.metadata([*settled.topics, first.topic, other.topic])
    assert not settled.are_known([first, other], with_offsets=False)
    settled.check([other])
    assert settled.are_known([first, other], with_offsets=False)


def test_after_an_abort_everything_is_looked_at_again(cluster, client):
    """An aborted transaction may have left records behind that arrive late."""
    partition = TopicPartition(cluster.create_topic(1), 0)
    settled = settled_in(client, partition)
    settled.forget()
    assert not settled.are_known([partition], with_offsets=True)
    assert not settled.are_known([partition], with_offsets=False)


def test_group_is_not_known_before_its_offsets_were_read(cluster, client):
    partition = TopicPartition(cluster.create_topic(1), 0)
    name = unique("settled")
    settled = SettledPartitions(client, name, name)
    client.metadata([partition.topic])
    settled.check([partition])
    assert settled.are_known([partition], with_offsets=False)
    assert not settled.are_known([partition], with_offsets=True)
