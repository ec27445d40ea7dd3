"""A micro-batch that was planned and not done is repeated as it was planned, whatever has become of the topics since.

Spark asks a source in Python again for its initial offset until a first micro-batch is done, and does not tell it for what.
"""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, NewTopic, Producer, TopicPartition
from oncelog.spark.offsets import begins_of, from_tree, is_offsets
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.source import readers
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.source.readers import StreamReader

COUNT = 3
STARTS = {
    "earliest": {"startingOffsets": "earliest"},
    "latest": {"startingOffsets": "latest"},
    "offsets": {"startingOffsets": '{"TOPIC": {"0": 1}}'},
    "time": {"startingTimestamp": "1"},
    "times": {"startingOffsetsByTimestamp": '{"TOPIC": {"0": 1}}'},
    "time to come": {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
}
BEGINS = {"earliest": 0, "latest": COUNT, "offsets": 1, "time": 0, "times": 0, "time to come": COUNT}


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(log, client):
    name = unique("in")
    client.create_topics([NewTopic(name, 1, 1)])
    fill(log, name)
    return name


def fill(log, topic, count=COUNT, partition=0):
    with Producer(log.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"value-%d" % number, partition=partition)


def gone(client, topic):
    client.delete_topics([topic])
    until(lambda: client.metadata([topic])[topic].error.name == "unknown_topic_or_partition")


def reader_of(log, topic, start="earliest", **options):
    told = {name: value.replace("TOPIC", topic) for name, value in STARTS[start].items()}
    known = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": topic, "kafka.metadata.max.age.ms": "0"}
    return StreamReader(parse_options(known | told | options, streaming=True))


def planned(reader):
    """The end of a first micro-batch, as the checkpoint has it."""
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    return json.loads(json.dumps(end))


def repeated(reader, end):
    return [
        (str(part.ranges[0].partition), *part.ranges[0][1:]) for part in reader.partitions(reader.initialOffset(), end)
    ]


def next_ranges(reader, start):
    end = reader.latestOffset(start, ReadAllAvailable())
    return [(str(part.ranges[0].partition), *part.ranges[0][1:]) for part in reader.partitions(start, end)]


@pytest.mark.parametrize("start", STARTS)
def test_a_partition_that_was_added_since_comes_after_it_from_its_beginning(log, client, topic, start):
    end = planned(reader_of(log, topic, start))
    client.create_partitions({topic: 2})
    fill(log, topic, partition=1)
    restarted = reader_of(log, topic, start)
    first = [(f"{topic}-0", BEGINS[start], COUNT)] if BEGINS[start] < COUNT else []
    assert repeated(restarted, end) == first
    assert next_ranges(restarted, end) == [(f"{topic}-1", 0, COUNT)]


@pytest.mark.parametrize("start", ["earliest", "latest", "time"])
def test_a_topic_that_the_pattern_matches_since_comes_after_it_from_its_beginning(log, client, topic, start):
    options = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribePattern": f"^{topic}.*", **STARTS[start]}

    def reader():
        return StreamReader(parse_options({**options, "kafka.metadata.max.age.ms": "0"}, streaming=True))

    end = planned(reader())
    client.create_topics([NewTopic(f"{topic}-more", 1, 1)])
    fill(log, f"{topic}-more")
    restarted = reader()
    assert repeated(restarted, end) == ([(f"{topic}-0", 0, COUNT)] if BEGINS[start] == 0 else [])
    assert next_ranges(restarted, end) == [(f"{topic}-more-0", 0, COUNT)]


def test_a_pattern_that_matched_nothing_reads_from_their_beginning_the_topics_that_come(log, client):
    name = unique("in")
    options = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribePattern": f"^{name}$"}
    parsed = parse_options({**options, "startingOffsets": "latest"}, streaming=True)
    end = planned(StreamReader(parsed))
    assert from_tree(end) == {}
    client.create_topics([NewTopic(name, 1, 1)])
    fill(log, name)
    restarted = StreamReader(parsed)
    assert repeated(restarted, end) == []
    assert next_ranges(restarted, end) == [(f"{name}-0", 0, COUNT)]


@pytest.mark.parametrize("start", ["earliest", "offsets", "time", "times"])
def test_records_that_were_deleted_since_are_still_asked_for(log, client, topic, start):
    """Reading them is what finds out that they are gone (tests/spark/test_source_losses.py)."""
    end = planned(reader_of(log, topic, start))
    client.delete_records({TopicPartition(topic, 0): 2})
    assert repeated(reader_of(log, topic, start), end) == [(f"{topic}-0", BEGINS[start], COUNT)]


@pytest.mark.parametrize("start", STARTS)
def test_records_that_came_since_are_not_skipped(log, topic, start):
    end = planned(reader_of(log, topic, start))
    fill(log, topic)
    restarted = reader_of(log, topic, start)
    first = [(f"{topic}-0", BEGINS[start], COUNT)] if BEGINS[start] < COUNT else []
    assert repeated(restarted, end) == first
    assert next_ranges(restarted, end) == [(f"{topic}-0", COUNT, 2 * COUNT)]


@pytest.mark.parametrize("start", STARTS)
def test_its_topic_that_is_gone_is_data_loss(log, client, topic, start):
    end = planned(reader_of(log, topic, start))
    gone(client, topic)
    with pytest.raises(DataLossError, match=f"{topic}-0 is gone before anything of it was read"):
        repeated(reader_of(log, topic, start), end)
    lenient = reader_of(log, topic, start, failOnDataLoss="false")
    assert repeated(lenient, end) == []
    assert from_tree(lenient.latestOffset(end, ReadAllAvailable())) == {}


@pytest.mark.parametrize("start", STARTS)
def test_its_topic_that_was_made_anew_is_data_loss(log, client, topic, start):
    end = planned(reader_of(log, topic, start))
    gone(client, topic)
    client.create_topics([NewTopic(topic, 1, 1)])
    fill(log, topic, COUNT + 2)
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and made anew while it was read"):
        repeated(reader_of(log, topic, start), end)
    lenient = reader_of(log, topic, start, failOnDataLoss="false")
    assert repeated(lenient, end) == []
    assert next_ranges(lenient, end) == [(f"{topic}-0", 0, COUNT + 2)]


def test_another_start_that_the_options_say_since_changes_nothing(log, topic):
    end = planned(reader_of(log, topic))
    assert repeated(reader_of(log, topic, "latest"), end) == [(f"{topic}-0", 0, COUNT)]


def test_a_new_partition_of_a_later_one_begins_where_it_was_planned_to(log, client, topic):
    end = planned(reader_of(log, topic))
    client.create_partitions({topic: 2})
    fill(log, topic, partition=1)
    second = reader_of(log, topic).latestOffset(end, ReadAllAvailable())
    client.delete_records({TopicPartition(topic, 1): 2})
    ranges = [part.ranges[0] for part in reader_of(log, topic).partitions(end, second)]
    assert [(one.partition.partition, one.start, one.end) for one in ranges] == [(1, 0, COUNT)]


def test_an_end_says_so_once(log, topic):
    reader = reader_of(log, topic)
    end = planned(reader)
    assert begins_of(end) == {TopicPartition(topic, 0): 0}
    assert is_offsets(json.dumps(end))
    assert reader.latestOffset(end, ReadAllAvailable()) == end, "Spark takes another text for new records"
    fill(log, topic)
    assert begins_of(reader.latestOffset(end, ReadAllAvailable())) is None


def test_what_the_options_say_wrongly_is_refused_where_a_micro_batch_is_to_be_planned(log, topic):
    wrong = reader_of(log, topic, startingOffsets=json.dumps({topic: {"0": 0, "1": 0}}))
    start = wrong.initialOffset()
    with pytest.raises(OptionError, match=f"has to name every partition: {topic}-1 does not exist"):
        wrong.latestOffset(start, ReadAllAvailable())


def test_an_end_of_an_older_oncelog_begins_where_the_options_say(log, client, topic):
    end = {topic: {"0": COUNT}}
    assert repeated(reader_of(log, topic, "offsets"), end) == [(f"{topic}-0", 1, COUNT)]
    client.create_partitions({topic: 2})
    assert repeated(reader_of(log, topic), end) == [(f"{topic}-0", 0, COUNT)]
    with pytest.raises(OptionError, match="has to name every partition"):
        repeated(reader_of(log, topic, "offsets"), end)


def test_an_end_of_an_older_oncelog_that_is_the_start_of_a_query_from_the_latest_offset_reads_nothing(log, topic):
    fill(log, topic)
    restarted = reader_of(log, topic, "latest")
    end = {topic: {"0": COUNT}}
    assert repeated(restarted, end) == []
    assert next_ranges(restarted, end) == [(f"{topic}-0", COUNT, 2 * COUNT)]


class TestWithoutStarts:
    """PySpark before 4.2 asks for an end, then for the start of the first micro-batch, and says no start of later ones."""

    @pytest.fixture(autouse=True)
    def _old(self, monkeypatch):
        monkeypatch.setattr(readers, "HAS_READ_LIMITS", False)

    @pytest.mark.parametrize("start", STARTS)
    def test_it_is_repeated_as_it_was_planned(self, log, client, topic, start):
        end = reader_of(log, topic, start).latestOffset()
        client.create_partitions({topic: 2})
        fill(log, topic)
        fill(log, topic, partition=1)
        client.delete_records({TopicPartition(topic, 0): 2})
        restarted = reader_of(log, topic, start)
        first = [(f"{topic}-0", BEGINS[start], COUNT)] if BEGINS[start] < COUNT else []
        assert repeated(restarted, end) == first
        later = restarted.latestOffset()
        ranges = [part.ranges[0] for part in restarted.partitions(end, later)]
        assert [(one.partition.partition, one.start, one.end) for one in ranges] == [
            (0, COUNT, 2 * COUNT),
            (1, 0, COUNT),
        ]

    def test_a_start_that_the_options_say_does_not_count_after_a_restart(self, log, client, topic):
        end = reader_of(log, topic, "latest").latestOffset()
        client.create_partitions({topic: 2})
        fill(log, topic)
        fill(log, topic, partition=1)
        restarted = reader_of(log, topic, "latest")
        later = restarted.latestOffset()
        ranges = [part.ranges[0] for part in restarted.partitions(end, later)]
        assert [(one.partition.partition, one.start, one.end) for one in ranges] == [
            (0, COUNT, 2 * COUNT),
            (1, 0, COUNT),
        ]

    def test_nothing_new_is_no_micro_batch(self, log, topic):
        reader = reader_of(log, topic)
        end = reader.latestOffset()
        assert reader.latestOffset() == end
        assert reader_of(log, topic).latestOffset() == end
