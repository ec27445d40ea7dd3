"""A transaction whose marker is missing in a partition or in a group: a sink of its transactional id stops before it writes.

Apache Kafka leaves one behind where a partition has no leader while markers are written (KAFKA-20734). Here its coordinator
is not told of what the transaction writes, which it allows where it does not verify partitions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from harness.kafka import KafkaNode
from harness.names import unique
from harness.rewriting_proxy import RewritingProxy
from harness.shared_producer import TV1, Cluster, Driver
from oncelog.client import Client, IsolationLevel, OffsetAndMetadata, TopicPartition
from oncelog.spark import HangingTransaction, write_exactly_once
from oncelog.spark.plan import Expectation
from oncelog.spark.sink.delivery import BatchDelivery, BatchDeliveryFailed, Count
from oncelog.spark.sink.hanging import CheckedPartitions, stable_offsets
from oncelog.spark.sink.settings import sink_settings
from oncelog.spark.sink.writer import Writer
from oncelog.testing.proxy import ApiKey

CALL_TIMEOUT_MS = 2_000
CALL_LIMIT_MS = 20_000
"""Enough for a node to start again."""


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

    def make(driver, topic, **more):
        known = {"bootstrap_servers": driver.cluster.bootstrap_servers, **more}
        settings = sink_settings(topic=topic, transactional_id=driver.transactional_id, **known)
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


@pytest.mark.drawn(8)
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


class Sent(BatchDelivery):
    """A micro-batch for one partition, sent as a test says."""

    def __init__(self, topic, send=lambda: None):
        super().__init__({0: Count(1, 1, 1, 1)}, 0, (TopicPartition(topic, 0),))
        self._send = send

    def send(self, producing):
        self._send()
        return self.counts


def as_the_sink(driver, writer):
    """Make a driver write under the sink's next epoch what the coordinator never hears of. The last transaction has ended."""
    driver.cluster.wait_until_complete(driver.transactional_id)
    driver.pid, driver.epoch = writer.identity.producer_id, writer.identity.epoch
    return driver


@pytest.mark.jvm
def test_transaction_that_hangs_since_an_aborted_attempt_is_found_before_the_next(unverified, driver, writer_of):
    topic = unverified.create_topic(1)
    writer = writer_of(driver, topic)
    writer.committed([])
    attempts = []

    def fail_at_first():
        attempts.append(writer.identity)
        if len(attempts) == 1:
            raise BatchDeliveryFailed("a task died")

    def leave_a_late_batch():
        as_the_sink(driver, writer).produce(driver.connection, topic, {0: driver.batch(0, ["late"])})
        return True

    with pytest.raises(HangingTransaction, match=f"is still open in {topic}-0, from offset 1 on"):
        writer.send(Sent(topic, fail_at_first), 0, {}, leave_a_late_batch, 0)
    assert len(attempts) == 1
    assert unverified.values(topic) == []


@pytest.mark.spark
@pytest.mark.parametrize("where", ["output", "offsets"])
def test_transaction_that_hangs_since_its_partition_was_without_a_leader_is_found_before_the_next(
    spark, unverified, driver, writer_of, where
):
    topic, source = unverified.create_topic(1), unverified.create_topic(1)
    writer = writer_of(driver, topic, call_timeout_ms=CALL_LIMIT_MS)
    writer.committed([TopicPartition(source, 0)])

    def write(batch_id):
        rows = spark.createDataFrame([(f"micro-batch {batch_id}",)], "value string")
        entries = {TopicPartition(source, 0): OffsetAndMetadata(batch_id)}
        writer.write(rows, batch_id, Expectation(1, is_proportional=True), lambda _: entries, lambda: True)

    write(1)
    as_the_sink(driver, writer)
    if where == "output":
        driver.produce(driver.connection, topic, {0: driver.batch(0, ["hangs"])})
        words = f"is still open in {topic}-0, from offset 2 on"
    else:
        group = driver.transactional_id
        driver.until_accepted("TxnOffsetCommit", lambda: driver.commit_offsets_once(group, source, {0: 7}))
        words = f"group '{group}' has offsets in a transaction that does not end"
    unverified.node.kill()
    unverified.node.start()
    unverified.connection = unverified.connect()
    with pytest.raises(HangingTransaction, match=words):
        write(2)
    assert unverified.values(topic) == ["micro-batch 1"]
    assert unverified.values(topic, isolation="read_uncommitted") == [
        "micro-batch 1",
        *(["hangs"] if where == "output" else []),
    ]


@pytest.mark.jvm
@pytest.mark.parametrize("elected", ["output", "__transaction_state", "__consumer_offsets", None])
def test_transaction_that_hangs_is_found_where_a_leader_has_changed_since(unverified, driver, writer_of, elected):
    topic, source = unverified.create_topic(1), unverified.create_topic(1)
    with RewritingProxy(unverified.bootstrap_servers) as proxy:
        writer = writer_of(driver, topic, bootstrap_servers=proxy.bootstrap_servers)
        writer.committed([TopicPartition(source, 0)])

        def write():
            # As encoding a micro-batch does.
            writer.client.metadata()
            entries = {TopicPartition(source, 0): OffsetAndMetadata(7)}
            writer.send(Sent(topic), 0, entries, lambda: True, 0)

        write()
        write()
        as_the_sink(driver, writer).produce(driver.connection, topic, {0: driver.batch(0, ["hangs"])})
        if elected is None:
            write()
            assert unverified.values(topic) == ["hangs"], (
                "it would have been found without an election, and the test says nothing"
            )
            return
        changed = topic if elected == "output" else elected
        proxy.changes[ApiKey.METADATA] = lambda message: under_later_leaders(message, changed)
        with pytest.raises(HangingTransaction, match=f"is still open in {topic}-0, from offset 2 on"):
            write()
        assert unverified.values(topic) == []


def under_later_leaders(message, name):
    """Metadata that tells of an election in each partition of a topic."""

    def later(item):
        return replace(item, leader_epoch=type(item.leader_epoch)(item.leader_epoch + 1))

    topics = tuple(
        replace(topic, partitions=tuple(map(later, topic.partitions))) if topic.name == name else topic
        for topic in message.topics
    )
    return replace(message, topics=topics)


def test_nothing_is_asked_of_partitions_while_their_leaders_stay(log, writer_of, monkeypatch):
    cluster = Cluster(log)
    topic, source = cluster.create_topic(2), cluster.create_topic(1)
    writer = writer_of(Driver(cluster, TV1), topic)
    writer.committed([TopicPartition(source, 0)])

    def write(batch_id):
        entries = {TopicPartition(source, 0): OffsetAndMetadata(batch_id)}
        writer.send(Sent(topic), batch_id, entries, lambda: True, 0)

    # A new cluster has just made the topic of the offsets.
    write(0)
    asked = Counter()
    for name in ("describe_producers", "committed_offsets", "metadata"):
        monkeypatch.setattr(writer.client, name, lambda *_, name=name, **__: asked.update([name]))
    before = writer.identity
    for batch_id in range(1, 4):
        write(batch_id)
    assert asked == {}
    assert writer.identity.epoch == before.epoch + 3


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


@pytest.fixture
def cluster(oncelog_broker):
    return Cluster(oncelog_broker)


@pytest.fixture
def client(oncelog_broker):
    with Client(oncelog_broker.bootstrap_servers) as client:
        yield client


def checked_in(client: Client, partition: TopicPartition) -> CheckedPartitions:
    """Of a transactional id of its own, after a look at one partition and at the group."""
    name = unique("checked")
    checked = CheckedPartitions(client, name, name)
    client.metadata([partition.topic])
    assert not checked.are_known([partition], with_offsets=True)
    checked.committed([])
    client.metadata([*checked.topics, partition.topic])
    checked.check_all([partition], [])
    assert checked.are_known([partition], with_offsets=True)
    assert checked.are_known([partition], with_offsets=False)
    return checked


def test_partition_that_was_not_looked_at_is_not_known(cluster, client):
    first, other = (TopicPartition(cluster.create_topic(1), 0) for _ in range(2))
    checked = checked_in(client, first)
    client.metadata([*checked.topics, first.topic, other.topic])
    assert not checked.are_known([first, other], with_offsets=False)
    checked.check([other])
    assert checked.are_known([first, other], with_offsets=False)


def test_after_an_abort_everything_is_looked_at_again(cluster, client):
    """An aborted transaction may have left records behind that arrive late."""
    partition = TopicPartition(cluster.create_topic(1), 0)
    checked = checked_in(client, partition)
    checked.forget()
    assert not checked.are_known([partition], with_offsets=True)
    assert not checked.are_known([partition], with_offsets=False)


def test_group_is_not_known_before_its_offsets_were_read(cluster, client):
    partition = TopicPartition(cluster.create_topic(1), 0)
    name = unique("checked")
    checked = CheckedPartitions(client, name, name)
    client.metadata([partition.topic])
    checked.check([partition])
    assert checked.are_known([partition], with_offsets=False)
    assert not checked.are_known([partition], with_offsets=True)
