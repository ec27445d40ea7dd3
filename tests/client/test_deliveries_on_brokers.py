"""Producers of every kind on our broker and on Apache Kafka, on both faces: where records go, and what is said of each."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import pytest

from harness.names import unique
from harness.processes import free_port
from oncelog.client import (
    AsyncProducer,
    BrokerRefused,
    Client,
    Consumer,
    DeliveryFailed,
    NewTopic,
    OffsetSpec,
    PartitionsOfTopic,
    Producer,
    RetriesExhausted,
    TopicPartition,
)

pytestmark = pytest.mark.on_a_cluster

PARTITIONS = 8
KEYS = [b"key-%d" % number for number in range(50)] + [b"", b"\x00\xff", "\u00fc".encode()]


@pytest.fixture
def partition_count():
    return PARTITIONS


def read(log, topic, records):
    """So many records of a topic."""
    found = []
    with Consumer(log.bootstrap_servers, max_wait_ms=100) as consumer:
        consumer.assign({TopicPartition(topic, number): OffsetSpec.EARLIEST for number in range(PARTITIONS)})
        deadline = time.monotonic() + 30
        while len(found) < records:
            assert time.monotonic() < deadline, f"{len(found)} of {records} records came"
            found += consumer.poll(100)
    return found


@pytest.mark.parametrize("partitioner", ["murmur2", "consistent_random"])
def test_keys_go_where_librdkafka_puts_them(log, topic, partitioner):
    """librdkafka's murmur2 is the Java client's; its own default is consistent_random."""
    expected = {}

    def delivered(_, message):
        expected[message.key() or b""] = message.partition()

    other = confluent_kafka.Producer({"bootstrap.servers": log.bootstrap_servers, "partitioner": partitioner})
    for key in KEYS:
        other.produce(topic, key=key, value=b"", on_delivery=delivered)
    assert other.flush(30) == 0
    if partitioner == "consistent_random":
        expected.pop(b"")  # any partition will do
    with Producer(log.bootstrap_servers, partitioner=partitioner) as producer:
        sent = {key: producer.send(topic, b"", key=key) for key in KEYS}
        assert {key: sent[key].result().partition for key in expected} == expected


def test_records_without_a_key_stay_together_until_their_partition_has_had_its_share(log, face, topic):
    """KIP-794: "batch.size" bytes, in however many batches they are sent."""
    with face.producer(log.bootstrap_servers, linger_ms=10_000, batch_bytes=4000) as producer:
        used = []
        for _ in range(6):
            sent = [producer.send(topic, b"v" * 100) for _ in range(20)]
            producer.flush()
            (partition,) = {delivery.result().partition for delivery in sent}
            used.append(partition)
    assert used[0::2] == used[1::2]
    assert len(set(used)) == 3


def test_partitioner_that_goes_around_gives_each_partition_as_many_records_as_the_others(log, face, topic):
    with face.producer(log.bootstrap_servers, partitioner="roundrobin") as producer:
        sent = [producer.send(topic, b"value", key=b"always the same") for _ in range(3 * PARTITIONS)]
        used = [delivery.result().partition for delivery in sent]
    assert used == [*range(PARTITIONS)] * 3


def test_own_function_decides_and_what_it_decides_must_be_there(log, face, topic):
    def last_byte(name, key, value, partitions):
        assert (name, partitions) == (topic, PartitionsOfTopic(PARTITIONS, available=tuple(range(PARTITIONS))))
        return None if value is None else value[-1]

    with face.producer(log.bootstrap_servers, partitioner=last_byte) as producer:
        assert producer.send(topic, b"\x03", key=b"any").result().partition == 3
        assert producer.send(topic, None, key=b"any").result().offset >= 0
        with pytest.raises(ValueError, match="partition 8 of the 8"):
            producer.send(topic, b"\x08")
        assert producer.send(topic, b"\x08", partition=5).result().partition == 5


@pytest.mark.parametrize(("acks", "is_idempotent"), [("all", True), ("all", False), (1, False), (0, False)])
def test_records_are_written_with_as_many_acknowledgements_as_asked_for(log, face, topic, acks, is_idempotent):
    with Producer(log.bootstrap_servers) as producer:
        # With acks 0 nobody says that a new topic has no leader yet: the records are gone.
        producer.send(topic, b"0", partition=0).result()
    with face.producer(log.bootstrap_servers, acks=acks, enable_idempotence=is_idempotent) as producer:
        first = producer.send(topic, b"1", partition=0).result()
        for number in range(2, 30):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
        last = producer.send(topic, b"30", partition=0).result()
    assert (first.offset, last.offset) == ((-1, -1) if acks == 0 else (1, 30))
    records = read(log, topic, 31)
    assert [int(record.value) for record in records] == list(range(31))
    assert {record.producer_id >= 0 for record in records[1:]} == {is_idempotent}


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_reach_another_client_with_all_they_carry(log, topic, compression):
    value = b"much of the same " * 500
    with Producer(log.bootstrap_servers, compression=compression) as producer:
        for number in range(20):
            producer.send(topic, value, key=b"%d" % number, partition=0, headers={"h": b"x", "n": None}, timestamp_ms=7)
    other = confluent_kafka.Consumer({"bootstrap.servers": log.bootstrap_servers, "group.id": topic})
    other.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < 20:
        found += other.consume(20, 1)
    other.close()
    for number, message in enumerate(found):
        assert (message.key(), message.value(), message.timestamp()[1]) == (b"%d" % number, value, 7)
        assert message.headers() == [("h", b"x"), ("n", None)]
    with Client(log.bootstrap_servers) as client:
        assert client.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 20}


def test_refused_record_fails_alone_and_the_callbacks_say_which(log, face, topic):
    told = []
    with Client(log.bootstrap_servers) as client:
        # A leader that is none yet says so, and what became of a batch that it was sent is then unknown.
        client.end_offsets([TopicPartition(topic, number) for number in range(3)])
    with face.producer(log.bootstrap_servers, linger_ms=1000, batch_bytes=1000) as producer:
        for name, partition, value in (("a", 0, b"a"), ("large", 1, bytes(2_000_000)), ("b", 2, b"b")):
            producer.send(
                topic,
                value,
                partition=partition,
                on_delivery=lambda meta, error, name=name: told.append((name, meta, error)),
            )
        with pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"):
            producer.flush()
        outcomes = {name: (meta, error) for name, meta, error in told}
        assert outcomes["large"][0] is None
        assert isinstance(outcomes["large"][1], BrokerRefused)
        assert [(outcomes[name][0].partition, outcomes[name][1]) for name in "ab"] == [(0, None), (2, None)]
        assert producer.send(topic, b"next", partition=1).result().offset == 0
        producer.flush()
    assert len(read(log, topic, 3)) == 3


def test_what_a_callback_raises_is_told_by_the_next_flush(log, face, topic):
    def refuse(*_):
        raise RuntimeError("not today")

    with face.producer(log.bootstrap_servers) as producer:
        producer.send(topic, b"value", on_delivery=refuse)
        with pytest.raises(RuntimeError, match="not today"):
            producer.flush()
        producer.send(topic, b"value")
        producer.flush()
    assert len(read(log, topic, 2)) == 2


def test_delivery_is_awaited_and_a_callback_may_be_a_coroutine(log, topic):
    async def write():
        told = []

        async def tell(metadata, _):
            await asyncio.sleep(0)
            told.append(metadata)

        async with AsyncProducer(log.bootstrap_servers) as producer:
            delivery = await producer.send(topic, b"value", partition=4, on_delivery=tell)
            metadata = await delivery
            await producer.flush()
            assert told == [metadata]
            return metadata

    metadata = asyncio.run(write())
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 4, 0)


def test_delivery_has_the_time_that_the_broker_gave_the_record(log, face):
    name = unique("deliveries")
    with Client(log.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, PARTITIONS, config={"message.timestamp.type": "LogAppendTime"})])
    with face.producer(log.bootstrap_servers) as producer:
        given = producer.send(name, b"value", timestamp_ms=1000).result().timestamp_ms
    (record,) = read(log, name, 1)
    assert record.timestamp_ms == given > 1000


def test_record_that_no_broker_takes_is_certainly_not_written(face):
    nowhere = f"127.0.0.1:{free_port()}"
    with (
        face.producer(nowhere, call_timeout_ms=300) as producer,
        pytest.raises(RetriesExhausted),
    ):
        producer.send("topic", b"value")


@pytest.mark.drawn(6)
def test_record_whose_broker_went_away_before_it_was_sent_has_failed(new_oncelog):
    node = new_oncelog()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic("t", 1, 1)])
    # The limits are those of the first record, too, which no busy machine needs so long to write.
    with Producer(node.bootstrap_servers, delivery_timeout_ms=10_000, call_timeout_ms=10_000) as producer:
        producer.send("t", b"first").result()
        node.kill()
        late = producer.send("t", b"late")
        with pytest.raises(RetriesExhausted):
            producer.flush()
        with pytest.raises(DeliveryFailed):
            late.result()


def test_idempotent_producer_that_is_started_again_writes_again_what_it_sends_again(log, face, topic):
    """KIP-98 §3.1: without a TransactionalId idempotence is within one producer session."""
    for offset in range(2):
        with face.producer(log.bootstrap_servers) as producer:
            assert producer.send(topic, b"order 7", partition=0).result().offset == offset


def test_what_does_not_go_together_is_refused():
    for wrong, reason in (
        ({"acks": 1, "enable_idempotence": True}, "idempotence needs acks 'all'"),
        ({"acks": 0, "transactional_id": "t"}, "transactions need"),
        ({"enable_idempotence": False, "transactional_id": "t"}, "transactions need"),
        ({"acks": 2}, "acks is 2"),
        ({"max_in_flight": 6}, "max_in_flight is 6: idempotence allows at most 5"),
        ({"max_in_flight": 0, "acks": 1}, "max_in_flight is 0: at least 1"),
        ({"retries": 0}, "retries is 0: idempotence needs at least 1"),
        ({"retries": -1, "acks": 1}, "retries is -1: at least 0"),
        ({"linger_ms": -1}, "linger_ms is -1"),
        ({"batch_bytes": 0}, "batch_bytes is 0"),
        ({"delivery_timeout_ms": -1}, "delivery_timeout_ms is -1"),
        ({"compression": "lzma"}, "none, gzip, snappy, lz4, zstd"),
        ({"partitioner": "best"}, "murmur2, consistent_random, sticky, roundrobin or a function"),
    ):
        with pytest.raises(ValueError, match=reason):
            Producer("127.0.0.1:9092", **wrong)
