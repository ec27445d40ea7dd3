"""A transaction whose marker is missing in a partition or in a group: a sink of its transactional id stops before it writes.

Apache Kafka leaves one behind where a partition has no leader while markers are written (KAFKA-20734). Here its coordinator
is not told of what the transaction writes, which it allows where it does not verify partitions.
"""

from __future__ import annotations

import pytest

from harness.kafka import KafkaNode
from harness.names import unique
from harness.shared_producer import TV1, Cluster, Driver
from oncelog.client import Client, IsolationLevel, TopicPartition
from oncelog.spark import HangingTransaction, write_exactly_once
from oncelog.spark.sink.hanging import stable_offsets
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.writer import Writer

CALL_TIMEOUT_MS = 2_000


@pytest.fixture(scope="module")
def unverified(tmp_path_factory):
    node = KafkaNode(tmp_path_factory.mktemp("unverified"), **{"transaction.partition.verification.enable": "false"})
    node.start()
    yield Cluster(node)
    node.kill()


@pytest.fixture
def driver(unverified):
    """Who has the transactional id, and has a transaction open that its coordinator has never heard of."""
    driver = Driver(unverified, TV1, unique("hanging"))
    driver.init()
    return driver


@pytest.fixture
def target(unverified, driver):
    """A topic in which the transaction hangs, from offset 0 of partition 1 on."""
    topic = unverified.create_topic(2)
    driver.produce(driver.connection, topic, {1: driver.batch(0, ["held back"])})
    return topic


@pytest.fixture
def writer_of():
    writers = []

    def make(driver, topic):
        servers = driver.cluster.bootstrap_servers
        settings = sink_settings(topic=topic, transactional_id=driver.transactional_id, bootstrap_servers=servers)
        writers.append(Writer(settings))
        return writers[-1]

    yield make
    for writer in writers:
        writer.close()


@pytest.mark.jvm
def test_end_that_is_missing_in_the_output_is_said_before_the_offsets_are_read(driver, target, writer_of):
    writer = writer_of(driver, target)
    with pytest.raises(HangingTransaction, match=f"is still open in {target}-1, from offset 0 on"):
        writer.committed([])


@pytest.mark.jvm
def test_transaction_of_another_id_is_open_and_does_not_hang(unverified, driver, target, writer_of):
    other = Driver(unverified, TV1)
    assert writer_of(other, target).committed([]) == {}


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_end_that_is_missing_in_a_topic_that_a_column_names_is_said_before_it_is_written(
    spark, unverified, driver, target
):
    rows = spark.createDataFrame(
        [(target, number, "v") for number in range(2)], "topic string, partition int, value string"
    )
    with pytest.raises(HangingTransaction, match=f"is still open in {target}-1, from offset 0 on"):
        write_exactly_once(
            rows, transactional_id=driver.transactional_id, bootstrap_servers=unverified.bootstrap_servers
        )
    with Client(unverified.bootstrap_servers) as client:
        ends = client.end_offsets(
            [TopicPartition(target, number) for number in range(2)], isolation_level=IsolationLevel.READ_UNCOMMITTED
        )
    assert sorted(ends.values()) == [0, 1]


def test_first_offset_of_a_group_that_stays_pending_is_found_by_its_partition_alone(log):
    """Pending it is here in a transaction that is open, which looks the same from outside."""
    cluster = Cluster(log)
    driver = Driver(cluster, TV1)
    driver.init()
    group, topic = cluster.new_group(), cluster.create_topic(1)
    driver.commit_offsets(group, topic, {0: 7})
    with Client(log.bootstrap_servers, call_timeout_ms=CALL_TIMEOUT_MS) as client:
        assert client.committed_offsets(group, require_stable=True) == {}
        with pytest.raises(HangingTransaction, match=f"group '{group}' has offsets in a transaction that does not end"):
            stable_offsets(client, group, [TopicPartition(topic, 0)])
        driver.complete()
        assert stable_offsets(client, group, [TopicPartition(topic, 0)]).keys() == {TopicPartition(topic, 0)}
