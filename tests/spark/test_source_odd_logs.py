"""What a log may look like, read as batches and as streams, without Spark in between."""

from __future__ import annotations

import json
import re
import socket
import threading

import pytest
from confluent_kafka import Producer as Confluent
from pyspark.sql.streaming.datasource import ReadAllAvailable

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, NewTopic, Producer, TopicPartition
from oncelog.spark.offsets import begins_of, from_tree
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.source.errors import NoAnswerError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.source.readers import BatchReader, StreamReader
from oncelog.spark.source.reading import read_ranges
from tests.spark import topics

pytestmark = pytest.mark.drawn(6)

SPARKS_DEFAULT = {"kafka.isolation.level": "read_uncommitted"}


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(client):
    name = unique("in")
    client.create_topics([NewTopic(name, 1, 1)])
    return name


def parsed(log, topic, *, streaming=False, **options):
    known = {"kafka.bootstrap.servers": log.bootstrap_servers, "startingOffsets": "earliest"}
    subscribed = {} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": topic}
    return parse_options(known | subscribed | options, streaming=streaming)


def rows(log, topic, **options):
    reader = BatchReader(parsed(log, topic, **options))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def stream(log, topic, **options):
    return StreamReader(parsed(log, topic, streaming=True, **{"kafka.metadata.max.age.ms": "0"}, **options))


def read(reader, start, end):
    return [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]


def produce(log, topic, values, **settings):
    producer = Confluent({"bootstrap.servers": log.bootstrap_servers, "linger.ms": 50, **settings})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(60) == 0


def test_an_empty_topic_has_no_rows_and_a_stream_of_it_waits(log, topic):
    assert rows(log, topic) == []
    reader = stream(log, topic)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert from_tree(first) == begins_of(first) == {TopicPartition(topic, 0): 0}, (
        "a checkpoint has where the query begins"
    )
    assert reader.latestOffset(first, ReadAllAvailable()) == first


def test_aborted_data_alone_is_passed_over(log, topic):
    topics.produce(log.bootstrap_servers, topic, [("k", "never")] * 5, commit=False)
    assert rows(log, topic) == []
    assert len(rows(log, topic, **SPARKS_DEFAULT)) == 5
    reader = stream(log, topic, maxRecordsPerPartition="1")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert from_tree(end) == {TopicPartition(topic, 0): 6}, "the marker has an offset, too"
    assert read(reader, {topic: {"0": 0}}, end) == []


def test_pieces_of_a_partition_with_gaps_have_each_record_once(log, topic):
    for commit in (True, False, True):
        topics.produce(log.bootstrap_servers, topic, [("k", f"{commit}")] * 7, commit=commit)
    for size in ("1", "3", "8", "100"):
        found = [row["offset"] for row in rows(log, topic, maxRecordsPerPartition=size)]
        assert found == [*range(7), *range(16, 23)]


def test_an_open_transaction_is_read_only_without_isolation_and_holds_nobody_up(log, topic):
    with Producer(log.bootstrap_servers, transactional_id=unique("open")) as producer:
        producer.init_transactions()
        topics.produce(log.bootstrap_servers, topic, [("k", "before")])
        producer.begin_transaction()
        producer.send(topic, b"inside", partition=0)
        producer.flush()
        topics.produce(log.bootstrap_servers, topic, [("k", "after")])
        assert [row["value"] for row in rows(log, topic)] == [b"before"]
        assert [row["value"] for row in rows(log, topic, **SPARKS_DEFAULT)] == [b"before", b"inside", b"after"]
        producer.abort_transaction()
    until(lambda: [row["value"] for row in rows(log, topic)] == [b"before", b"after"])


def test_a_partition_that_is_added_is_read_from_its_beginning(log, client, topic):
    reader = stream(log, topic)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    client.create_partitions({topic: 2})
    with Producer(log.bootstrap_servers) as producer:
        producer.send(topic, b"new", partition=1)

    def grown():
        return reader.latestOffset(start, ReadAllAvailable())

    until(lambda: from_tree(grown()) == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 1})
    assert [row["value"] for row in read(reader, start, grown())] == [b"new"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(log, topic, codec):
    values = [f"value-{number}".encode() * 20 for number in range(200)]
    produce(log, topic, values, **{"compression.type": codec})
    assert [row["value"] for row in rows(log, topic)] == values


def test_a_record_that_is_larger_than_an_answer_may_be_is_read_whole(log, client):
    topic = unique("huge")
    client.create_topics([NewTopic(topic, 1, 1, {"max.message.bytes": "20000000"})])
    values = [b"small", b"x" * 10_000_000, b"y" * 10_000_000, b"small"]
    produce(log, topic, values, **{"message.max.bytes": 20_000_000})
    small = {"kafka.max.partition.fetch.bytes": "1000", "kafka.fetch.max.bytes": "1000"}
    assert [row["value"] for row in rows(log, topic, **small)] == values
    assert [row["value"] for row in rows(log, topic)] == values


def test_nulls_are_nulls_and_headers_may_be_there_twice(log, topic):
    producer = Confluent({"bootstrap.servers": log.bootstrap_servers})
    headers = [("a", b"1"), ("a", None), ("", b"")]
    producer.produce(topic, key=None, value=None, headers=headers, partition=0)
    producer.produce(topic, key=b"", value=b"", partition=0)
    assert producer.flush(60) == 0
    first, second = rows(log, topic, includeHeaders="true")
    assert (first["key"], first["value"]) == (None, None)
    assert [(header["key"], header["value"]) for header in first["headers"]] == headers
    assert (second["key"], second["value"], second["headers"]) == (b"", b"", None)


def test_the_brokers_time_is_told_as_such(log, client):
    topic = unique("broker-time")
    client.create_topics([NewTopic(topic, 1, 1, {"message.timestamp.type": "LogAppendTime"})])
    with Producer(log.bootstrap_servers) as producer:
        producer.send(topic, b"dated back", partition=0, timestamp_ms=1000)
    (row,) = rows(log, topic)
    assert row["timestampType"] == 1
    assert row["timestamp"].year >= 2024


def test_times_before_and_after_every_record(log, topic):
    with Producer(log.bootstrap_servers) as producer:
        for time_ms in (1000, 2000, 3000):
            producer.send(topic, str(time_ms).encode(), partition=0, timestamp_ms=time_ms)
            producer.flush()

    def values(**options):
        return [row["value"] for row in rows(log, topic, **options)]

    assert values(startingTimestamp="0") == [b"1000", b"2000", b"3000"]
    assert values(startingTimestamp="2000") == [b"2000", b"3000"]
    assert values(startingTimestamp="0", endingTimestamp="2000") == [b"1000"]
    assert values(endingTimestamp="99999999") == [b"1000", b"2000", b"3000"]
    assert values(startingTimestamp="3001", startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(OptionError, match=f"{topic}-0 has no record at or after its starting time"):
        values(startingTimestamp="3001")
    assert values(startingOffsetsByTimestamp=json.dumps({topic: {"0": 1001}})) == [b"2000", b"3000"]


@pytest.mark.parametrize("given", [{"0": 1}, {"0": 1, "1": 1, "2": 1}])
def test_offsets_of_some_partitions_or_of_too_many_are_refused_by_name(log, client, given):
    topic = unique("two")
    client.create_topics([NewTopic(topic, 2, 1)])
    odd = "1 is missing" if len(given) == 1 else "2 does not exist"
    with pytest.raises(OptionError, match=f"option startingOffsets has to name every partition: {topic}-{odd}"):
        rows(log, topic, startingOffsets=json.dumps({topic: given}))


@pytest.mark.parametrize("shape", ["a.b_{}-C", "_{}", "UPPER.{}", "{:x<249}"])
def test_every_legal_name_can_be_read_by_itself_by_partition_and_by_pattern(log, client, shape):
    topic = shape.format(unique("n"))
    client.create_topics([NewTopic(topic, 1, 1)])
    topics.produce(log.bootstrap_servers, topic, [("k", "v")])
    for how in (
        {"subscribe": f" {topic} ,"},
        {"assign": json.dumps({topic: [0]})},
        {"subscribePattern": f"^{re.escape(topic)}$"},
    ):
        assert [row["topic"] for row in rows(log, topic, **how)] == [topic]


@pytest.mark.parametrize("name", ["no such topic", "naïve", "x" * 250])
def test_a_name_that_no_topic_can_have_is_refused(log, name):
    with pytest.raises(OptionError, match=r"cannot be read: INVALID_TOPIC_EXCEPTION|does not exist"):
        rows(log, name)


def test_a_pattern_finds_what_spark_finds_and_no_internal_topic(log, client, topic):
    client.committed_offsets("whoever")  # makes __consumer_offsets
    topics.produce(log.bootstrap_servers, topic, [("k", "v")])
    pattern = f"__consumer_offsets|{topic[2:]}"
    found = rows(log, topic, subscribePattern=pattern)
    assert {row["topic"] for row in found} == {topic}
    everything = StreamReader(
        parsed(log, topic, streaming=True, subscribePattern=pattern, **{"kafka.exclude.internal.topics": "false"})
    )
    until(lambda: {item.topic for item in from_tree(everything.initialOffset())} == {topic, "__consumer_offsets"})


def test_a_pattern_that_finds_nothing_waits_for_topics(log, client):
    name = unique("later")
    reader = stream(log, name, subscribePattern=f"^{name}$")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert from_tree(start) == begins_of(start) == {}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    client.create_topics([NewTopic(name, 1, 1)])
    topics.produce(log.bootstrap_servers, name, [("k", "v")])
    until(lambda: from_tree(reader.latestOffset(start, ReadAllAvailable())) == {TopicPartition(name, 0): 1})
    assert len(read(reader, start, {name: {"0": 1}})) == 1


def test_limits_of_an_answer_reach_the_tasks(log, topic):
    for _ in range(5):
        produce(log, topic, [b"x" * 1000])
    reader = BatchReader(parsed(log, topic))
    (part,) = reader.partitions()
    assert len(list(reader.read(part))) == 1
    for name in ("kafka.max.partition.fetch.bytes", "kafka.fetch.max.bytes"):
        assert len(list(BatchReader(parsed(log, topic, **{name: "1000"})).read(part))) == 5


@pytest.mark.parametrize("part_of_the_source", ["driver", "task"])
def test_brokers_see_the_clients_name_in_driver_and_tasks(part_of_the_source):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        known = {"kafka.bootstrap.servers": address, "subscribe": "t", "kafka.default.api.timeout.ms": "1500"}
        options = parse_options({**known, "groupIdPrefix": "mine"}, streaming=True)
        if part_of_the_source == "driver":
            asking = threading.Thread(target=_fails, args=(StreamReader(options).initialOffset,))
        else:
            rows = read_ranges([OffsetRange(TopicPartition("t", 0), 0, 1)], options)
            asking = threading.Thread(target=_fails, args=(lambda: list(rows),))
        asking.start()
        connection, _ = server.accept()
        with connection:
            assert b"consumer-mine" in connection.recv(1000), "the header of the first request"
    asking.join()


def _fails(ask):
    with pytest.raises(NoAnswerError):
        ask()


def test_a_partition_that_is_assigned_and_not_there_is_refused(log, topic):
    with pytest.raises(OptionError, match=f"partition {topic}-7 is assigned, but does not exist"):
        rows(log, topic, assign=json.dumps({topic: [0, 7]}))
