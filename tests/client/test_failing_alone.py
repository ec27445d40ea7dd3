"""What is wrong with one record or partition is that one's matter: the others are written and read, on both brokers."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest

from harness.names import unique
from harness.rewriting_proxy import RewritingProxy
from oncelog.client import (
    BrokerRefused,
    Client,
    Consumer,
    DeliveryFailed,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
    RetriesExhausted,
    TopicPartition,
    TransactionFailed,
)

pytestmark = pytest.mark.drawn(6)

PARTITIONS = 3
KINDS = {
    "idempotent": {},
    "plain": {"enable_idempotence": False},
    "leader only": {"acks": 1},
    "transactional": {"transactional_id": True},
}
DEADLINE_MS = 5000
"""For a record that is never written: those that are have as much, on a busy machine too."""


@pytest.fixture
def partition_count():
    return PARTITIONS


@pytest.fixture
def other(log):
    """A second topic, in which records of more than 2,000 bytes have no place."""
    name = unique("alone")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, PARTITIONS, 1, {"max.message.bytes": "2000"})])
    return name


@pytest.fixture
def proxy(log):
    with RewritingProxy(log.bootstrap_servers) as proxy:
        yield proxy


def options(kind):
    chosen = KINDS[kind]
    return {**chosen, "transactional_id": unique("alone")} if "transactional_id" in chosen else chosen


def begin(producer, kind):
    if kind == "transactional":
        producer.init_transactions()
        producer.begin_transaction()


def values(log, topic):
    with Client(log.bootstrap_servers) as client:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        # A commit is answered before its markers are written.
        ends = client.end_offsets(partitions, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    found = []
    with Consumer(log.bootstrap_servers, isolation_level=IsolationLevel.READ_UNCOMMITTED) as consumer:
        consumer.assign(dict.fromkeys(ends, OffsetSpec.EARLIEST))
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(100)
    return sorted(record.value for record in found)


@pytest.mark.parametrize("kind", KINDS)
def test_record_for_a_partition_that_is_not_there_is_refused_and_the_others_are_written(log, face, topic, other, kind):
    with face.producer(log.bootstrap_servers, linger_ms=200, **options(kind)) as producer:
        begin(producer, kind)
        first = producer.send(topic, b"first", partition=0)
        with pytest.raises(BrokerRefused, match=f"partition {PARTITIONS} of topic {other}, which has {PARTITIONS}"):
            producer.send(other, b"wrong", partition=PARTITIONS)
        with pytest.raises(ValueError, match="the first one is 0"):
            producer.send(other, b"wrong", partition=-1)
        last = producer.send(other, b"last", partition=0)
        producer.flush()
        assert first.result().offset == last.result().offset == 0
        if kind == "transactional":
            producer.commit_transaction()


def test_partition_that_was_added_is_written_to_at_once(log, face, topic):
    with face.producer(log.bootstrap_servers) as producer:
        producer.send(topic, b"value", partition=0).result()
        with Client(log.bootstrap_servers) as client:
            client.create_partitions({topic: PARTITIONS + 1})
        assert producer.send(topic, b"value", partition=PARTITIONS).result().partition == PARTITIONS


@pytest.mark.parametrize("kind", KINDS)
def test_topic_without_leaders_keeps_no_other_topic_waiting(log, proxy, face, topic, other, kind):
    proxy.take_leaders(topic)
    with face.producer(proxy.bootstrap_servers, linger_ms=0, **options(kind)) as producer:
        begin(producer, kind)
        waiting = producer.send(topic, b"waits", partition=0)
        for number in range(5):
            assert producer.send(other, b"goes", partition=0).result(10_000).offset == number
        assert not waiting.is_done
        proxy.give_leaders()
        assert waiting.result(10_000).offset == 0
        if kind == "transactional":
            producer.commit_transaction()
    assert values(log, topic) == [b"waits"]


@pytest.mark.parametrize("partitioner", ["murmur2", "roundrobin"])
def test_records_without_a_key_go_to_partitions_that_have_a_leader(log, proxy, face, topic, partitioner):
    proxy.take_leaders(topic, partition=1)
    options = {"partitioner": partitioner, "linger_ms": 0, "batch_bytes": 1, "metadata_max_age_ms": 0}
    with face.producer(proxy.bootstrap_servers, **options) as producer:
        used = [producer.send(topic, b"goes").result(10_000).partition for _ in range(9)]
        assert set(used) == {0, 2}
        proxy.give_leaders()
        while 1 not in used:
            used.append(producer.send(topic, b"goes").result(10_000).partition)
    assert values(log, topic) == [b"goes"] * len(used)


@pytest.mark.drawn(6)
def test_record_whose_topic_has_no_leader_fails_alone_at_its_deadline(proxy, face, topic, other):
    proxy.take_leaders(topic)
    with face.producer(proxy.bootstrap_servers, linger_ms=0, delivery_timeout_ms=DEADLINE_MS) as producer:
        waiting = producer.send(topic, b"waits", partition=0)
        assert producer.send(other, b"goes", partition=0).result(10_000).offset == 0
        with pytest.raises(DeliveryFailed, match="LEADER_NOT_AVAILABLE"):
            waiting.result(10 * DEADLINE_MS)
        with pytest.raises(DeliveryFailed, match="LEADER_NOT_AVAILABLE"):
            producer.flush()
        assert producer.send(other, b"goes", partition=0).result(10_000).offset == 1


@pytest.mark.drawn(6)
def test_transaction_with_a_topic_without_leader_fails_at_its_deadline_and_is_aborted(proxy, face, topic, other):
    proxy.take_leaders(topic)
    with face.producer(
        proxy.bootstrap_servers, linger_ms=0, delivery_timeout_ms=DEADLINE_MS, transactional_id=unique("alone")
    ) as producer:
        begin(producer, "transactional")
        assert producer.send(other, b"goes", partition=0).result(10_000).offset == 0
        producer.send(topic, b"waits", partition=0)
        with pytest.raises(TransactionFailed, match="LEADER_NOT_AVAILABLE"):
            producer.commit_transaction()
        producer.abort_transaction()
        proxy.give_leaders()
        producer.begin_transaction()
        producer.send(topic, b"again", partition=0)
        producer.commit_transaction()


def test_thread_that_waits_for_a_topic_that_is_not_there_keeps_no_other_waiting(log, topic):
    """One has to learn of the topic, and waits for it as long as a call may take."""
    failed = []

    def wait_for_it():
        try:
            producer.send("not-there-" * 40, b"value")
        except BrokerRefused as error:
            failed.append(error)
        try:
            producer.send("__no such topic", b"value")
        except (BrokerRefused, RetriesExhausted) as error:
            failed.append(error)

    with Producer(log.bootstrap_servers, call_timeout_ms=3000) as producer:
        thread = threading.Thread(target=wait_for_it)
        thread.start()
        assert producer.send(topic, b"value").result(10_000).offset == 0
        thread.join()
    assert [type(error) for error in failed] == [BrokerRefused, BrokerRefused]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_record_too_large_fails_alone_in_a_batch_that_it_shares(log, face, other, compression):
    small = [b"small-%d" % number for number in range(20)]
    with face.producer(log.bootstrap_servers, linger_ms=10_000, compression=compression) as producer:
        large = Random(1).randbytes(10_000)
        sent = [producer.send(other, value, partition=0) for value in small[:13]]
        refused = producer.send(other, large, partition=0)
        sent += [producer.send(other, value, partition=0) for value in small[13:]]
        with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
            producer.flush()
        with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
            refused.result()
        assert [delivery.result().offset for delivery in sent] == list(range(20))
    assert values(log, other) == sorted(small)


def test_batch_too_large_for_its_topic_is_written_in_parts(log, face, other):
    """Kafka's producer divides such a batch, too."""
    with face.producer(log.bootstrap_servers, linger_ms=10_000, transactional_id=unique("alone")) as producer:
        begin(producer, "transactional")
        sent = [producer.send(other, bytes(300), partition=0) for _ in range(50)]
        producer.commit_transaction()
        assert [delivery.result().offset for delivery in sent] == list(range(50))


def test_records_behind_one_that_is_refused_are_written_in_order(log, face, other):
    """They are on their way when it is refused, so the broker refuses them as well, for their sequences."""
    with face.producer(log.bootstrap_servers, linger_ms=0, batch_bytes=1) as producer:
        producer.send(other, b"000", partition=0).result()
        sent = {number: producer.send(other, b"%03d" % number, partition=0) for number in range(1, 6)}
        large = producer.send(other, bytes(5000), partition=0)
        sent |= {number: producer.send(other, b"%03d" % number, partition=0) for number in range(6, 40)}
        with pytest.raises(BrokerRefused):
            producer.flush()
        with pytest.raises(BrokerRefused):
            large.result()
        assert [sent[number].result().offset for number in sorted(sent)] == list(range(1, 40))
    assert values(log, other) == [b"%03d" % number for number in range(40)]


def fill(log, *topics):
    with Producer(log.bootstrap_servers) as producer:
        for topic in topics:
            for number in range(PARTITIONS):
                producer.send(topic, topic.encode(), partition=number)


def poll_until(consumer, count, seconds=20):
    found = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found += consumer.poll(100)
    return found


def test_partitions_without_leaders_keep_no_other_from_being_read(log, proxy, face, topic, other):
    fill(log, topic, other)
    proxy.take_leaders(topic)
    with face.consumer(proxy.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(name, number): 0 for name in (topic, other) for number in range(PARTITIONS)})
        assert {record.topic for record in poll_until(consumer, PARTITIONS)} == {other}
        fill(log, other)
        assert {record.topic for record in poll_until(consumer, PARTITIONS)} == {other}
        proxy.give_leaders()
        assert {record.topic for record in poll_until(consumer, PARTITIONS)} == {topic}


def test_partition_that_stays_without_a_leader_is_named_where_nothing_else_comes(proxy, face, topic):
    proxy.take_leaders(topic)
    with face.consumer(proxy.bootstrap_servers, call_timeout_ms=500) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        for _ in ("once", "and again"):
            with pytest.raises(RetriesExhausted, match=f"{topic}-0.*LEADER_NOT_AVAILABLE"):
                poll_until(consumer, 1)
        proxy.give_leaders()
        assert consumer.poll(100) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_subscriber_reads_what_has_a_leader(log, proxy, face, topic, other, group, protocol):
    """Where the group has no offset, each partition's leader is asked where it begins."""
    fill(log, topic, other)
    proxy.take_leaders(topic)
    with face.consumer(proxy.bootstrap_servers, group_id=group, group_protocol=protocol) as consumer:
        consumer.subscribe([topic, other])
        assert {record.topic for record in poll_until(consumer, PARTITIONS)} == {other}
        proxy.give_leaders()
        assert {record.topic for record in poll_until(consumer, PARTITIONS)} == {topic}


def test_offset_that_a_transaction_holds_back_holds_no_other_partition_back(log, face, topic, group):
    """KIP-447: who reads committed data waits for offsets of a transaction that is open: of these partitions alone."""
    fill(log, topic)
    held = TopicPartition(topic, 0)
    with Producer(log.bootstrap_servers, transactional_id=unique("alone")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({held: OffsetAndMetadata(1)}, group)
        with face.consumer(log.bootstrap_servers, group_id=group) as consumer:
            consumer.subscribe([topic])
            found = poll_until(consumer, PARTITIONS - 1)
            assert {record.partition for record in found} == {1, 2}
            producer.commit_transaction()
            while held not in consumer.positions():
                assert consumer.poll(100) == []
            assert consumer.position(held) == 1


def test_partition_that_is_not_there_is_an_error_each_time_and_the_others_are_read(log, face, topic):
    fill(log, topic)
    with face.consumer(log.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(topic, number): 0 for number in (0, 1, 2, 3)})
        errors, found = [], []
        deadline = time.monotonic() + 20
        while len(found) < PARTITIONS or len(errors) < 2:
            assert time.monotonic() < deadline, (found, errors)
            try:
                found += consumer.poll(100)
            except BrokerRefused as error:
                errors.append(str(error))
        assert {record.partition for record in found} == {0, 1, 2}
        assert all(f"partition 3 of topic {topic}, which has 3" in error for error in errors)


def test_offset_out_of_range_is_an_error_each_time_and_the_others_are_read(log, face, topic):
    fill(log, topic)
    with face.consumer(log.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign({TopicPartition(topic, 0): 100, TopicPartition(topic, 1): 0})
        errors, found = [], []
        deadline = time.monotonic() + 20
        while not found or len(errors) < 2:
            assert time.monotonic() < deadline, (found, errors)
            try:
                found += consumer.poll(100)
            except BrokerRefused as error:
                errors.append(str(error))
        assert [record.partition for record in found] == [1]
        assert all(f"offset 100 of {topic}-0" in error for error in errors)
