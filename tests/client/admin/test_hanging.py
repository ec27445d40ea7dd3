"""Transactions that hang in a partition: found, told from those that are open, and ended there.

What hangs is what the coordinator was not told of: Apache Kafka allows that where it does not verify partitions. Ours always
does, and ends what it finds hanging at a start; tests/broker/coordinators/test_hanging.py has how it takes such a marker.
"""

from __future__ import annotations

import pytest

from harness.kafka import KafkaNode
from harness.names import unique
from harness.oncelog_process import OncelogNode
from harness.shared_producer import TV1, Cluster, Driver
from oncelog.client import IllegalState, TopicPartition

UNVERIFIED = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module")
def unverified(tmp_path_factory):
    node = KafkaNode(tmp_path_factory.mktemp("unverified"), **UNVERIFIED)
    node.start()
    yield Cluster(node)
    node.kill()


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    node = OncelogNode(tmp_path_factory.mktemp("ours"))
    node.start()
    yield Cluster(node)
    node.kill()


@pytest.fixture
def hung(unverified):
    """The driver whose transaction hangs in partition 1 of a topic from offset 0 on, and that topic."""
    driver, topic = Driver(unverified, TV1, unique("hanging")), unverified.create_topic(2)
    driver.init()
    driver.produce(driver.connection, topic, {1: driver.batch(0, ["held back"])})
    return driver, topic


def partitions_of(topic):
    return [TopicPartition(topic, number) for number in range(2)]


@pytest.mark.jvm
def test_hanging_transaction_is_found_and_ended(unverified, hung, face):
    driver, topic = hung
    with face.client(unverified.bootstrap_servers) as client:
        (found,) = client.find_hanging_transactions(partitions_of(topic))
        assert (found.partition, found.transactional_id) == (TopicPartition(topic, 1), driver.transactional_id)
        assert (found.state.producer_id, found.state.transaction_start_offset) == (driver.pid, 0)
        assert client.abort_hanging_transaction(found.partition, 0) == found
        assert client.find_hanging_transactions(partitions_of(topic)) == []
        assert client.end_offsets([found.partition]) == {found.partition: 2}
        with pytest.raises(IllegalState, match=f"no transaction hangs in {topic}-1 from offset 0 on"):
            client.abort_hanging_transaction(found.partition, 0)
    assert unverified.values(topic, 2) == []


@pytest.mark.jvm
def test_producer_with_a_transaction_open_is_to_be_aborted_first(unverified, hung, face):
    driver, topic = hung
    driver.add(topic, [0])
    with face.client(unverified.bootstrap_servers) as client:
        assert [one.partition.partition for one in client.find_hanging_transactions(partitions_of(topic))] == [1]
        with pytest.raises(IllegalState, match=f"'{driver.transactional_id}' has a transaction open"):
            client.abort_hanging_transaction(TopicPartition(topic, 1), 0)
        client.abort_transaction(driver.transactional_id)
        client.abort_hanging_transaction(TopicPartition(topic, 1), 0)
        assert client.find_hanging_transactions(partitions_of(topic)) == []


@pytest.mark.parametrize("brokers", ["ours", pytest.param("unverified", marks=pytest.mark.jvm)])
def test_open_transaction_does_not_hang(request, brokers, face):
    cluster = request.getfixturevalue(brokers)
    driver, topic = Driver(cluster, TV1), cluster.create_topic(2)
    driver.init()
    driver.add(topic, [1])
    driver.produce(driver.connection, topic, {1: driver.batch(0, ["held back"])})
    with face.client(cluster.bootstrap_servers) as client:
        assert client.find_hanging_transactions(partitions_of(topic)) == []
        with pytest.raises(IllegalState, match=f"'{driver.transactional_id}' has a transaction open"):
            client.abort_hanging_transaction(TopicPartition(topic, 1), 0)
    driver.complete()
    assert cluster.values(topic, 2) == ["held back"]
