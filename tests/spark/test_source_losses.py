"""Records that are gone when the source wants to read them: deleted, or with their topic."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, Fetcher, NewTopic, Producer, TopicPartition
from oncelog.client.consumer.readings import FetchedBatches
from oncelog.records import batches
from oncelog.spark.offsets import from_tree
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.source import reading
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.source.readers import BatchReader, StreamReader
from oncelog.spark.source.reading import open_fetcher, read_ranges

COUNT = 20
START = 7


@pytest.fixture
def client(log):
    with Client(log.bootstrap_servers) as client:
        yield client


def fill(log, topic, count=COUNT):
    """Records of one batch in partition 0: it goes when the producer is closed, however long they take to be added."""
    with Producer(log.bootstrap_servers, linger_ms=60_000) as producer:
        for number in range(count):
            producer.send(topic, b"value-%d" % number, partition=0)


@pytest.fixture
def topic(log, client):
    name = unique("in")
    client.create_topics([NewTopic(name, 1, 1)])
    fill(log, name)
    with Fetcher(log.bootstrap_servers) as fetcher:
        (chunk,) = fetcher.fetch(TopicPartition(name, 0), 0).chunks
    assert len(list(batches(chunk))) == 1, "the records have to be in one batch, or the tests say nothing"
    return name


def parsed(log, topic, *, streaming=True, **options):
    known = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    return parse_options(known | options, streaming=streaming)


def offsets_read(options, topic, start, end=COUNT):
    rows = read_ranges([OffsetRange(TopicPartition(topic, 0), start, end)], options)
    return [offset for batch in rows for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("start", [0, START - 1, START, START + 1])
def test_no_record_before_the_log_start_is_read_though_its_batch_is_still_there(log, client, topic, start, caplog):
    client.delete_records({TopicPartition(topic, 0): START})
    lenient = parsed(log, topic, failOnDataLoss="false")
    assert offsets_read(lenient, topic, start) == list(range(max(start, START), COUNT))
    assert ("what is gone is left out" in caplog.text) == (start < START)
    if start < START:
        with pytest.raises(DataLossError, match=f"{topic}-0 no longer has offset {start}"):
            offsets_read(parsed(log, topic), topic, start)


def test_a_batch_read_from_a_deleted_offset_has_what_is_left(log, client, topic):
    client.delete_records({TopicPartition(topic, 0): START})
    offsets = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    reader = BatchReader(parsed(log, topic, streaming=False, failOnDataLoss="false", **offsets))
    rows = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == list(range(START, COUNT))


class NewLeader:
    """Its log has everything. As a follower it knew an earlier high watermark, and names that until followers have come."""

    def __init__(self, leader: Fetcher) -> None:
        self._leader = leader
        self._is_new = True

    def __getattr__(self, name):
        return getattr(self._leader, name)

    def take(self, partition):
        if self._is_new:
            self._is_new = False
            return FetchedBatches(partition, (), START + 2, START, START, 0, (), -1)
        return self._leader.take(partition)


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_nothing_is_lost_where_a_new_leader_names_an_earlier_high_watermark(log, topic, monkeypatch, fail_on_data_loss):
    monkeypatch.setattr(reading, "open_fetcher", lambda *of: NewLeader(open_fetcher(*of)))
    options = parsed(log, topic, failOnDataLoss=fail_on_data_loss, **{"kafka.client.id": unique("reader")})
    assert offsets_read(options, topic, START + 2) == list(range(START + 2, COUNT))


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_an_offset_beyond_the_end_is_a_wrong_option(log, topic, option):
    options = {"startingOffsets": json.dumps({topic: {"0": 3}}), option: json.dumps({topic: {"0": 1000}})}
    words = rf"option {option}: {topic}-0 ends at offset {COUNT}, before 1000; failOnDataLoss=false takes the end"
    with pytest.raises(OptionError, match=words):
        BatchReader(parsed(log, topic, streaming=False, **options)).partitions()
    lenient = BatchReader(parsed(log, topic, streaming=False, failOnDataLoss="false", **options))
    assert [part.ranges[0][1:] for part in lenient.partitions()] == ([(3, COUNT)] if option == "endingOffsets" else [])


def test_a_stream_that_starts_beyond_the_end_does_not_say_that_it_was_there(log, topic):
    offsets = {"startingOffsets": json.dumps({topic: {"0": 1000}})}
    with pytest.raises(OptionError, match=f"startingOffsets: {topic}-0 ends at offset {COUNT}, before 1000"):
        first_end(StreamReader(parsed(log, topic, **offsets)))
    lenient = StreamReader(parsed(log, topic, failOnDataLoss="false", **offsets))
    assert from_tree(lenient.initialOffset()) == {TopicPartition(topic, 0): COUNT}


def first_end(reader):
    """Where the first micro-batch ends. What is wrong with a start is said when one is to be planned."""
    return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def now(log, topic, **options):
    """A reader that looks for new topics each time it is asked."""
    return StreamReader(parsed(log, topic, **{"kafka.metadata.max.age.ms": "0"}, **options))


def gone(client, topic):
    client.delete_topics([topic])
    until(lambda: client.metadata([topic])[topic].error.name == "unknown_topic_or_partition")


def test_a_topic_that_is_deleted_just_after_it_was_looked_for_is_data_loss(log, client, topic):
    options = {"kafka.metadata.max.age.ms": "3600000"}
    reader = StreamReader(parsed(log, topic, **options))
    lenient = StreamReader(parsed(log, topic, failOnDataLoss="false", **options))
    start = reader.initialOffset()
    assert lenient.initialOffset() == start
    gone(client, topic)
    with pytest.raises(DataLossError, match=f"{topic}-0 is gone"):
        reader.latestOffset(start, ReadAllAvailable())
    assert from_tree(lenient.latestOffset(start, ReadAllAvailable())) == {}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_that_is_deleted_while_it_is_read_is_data_loss(log, client, topic, restarts, caplog):
    reader, lenient = now(log, topic), now(log, topic, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    lenient.initialOffset()
    gone(client, topic)
    if restarts:
        reader, lenient = now(log, topic), now(log, topic, failOnDataLoss="false")
    with pytest.raises(DataLossError, match=f"{topic}-0 is gone; failOnDataLoss=false goes on without it"):
        reader.latestOffset(end, ReadAllAvailable())
    assert lenient.latestOffset(end, ReadAllAvailable()) == {}
    assert f"{topic}-0 is gone; the query goes on without it" in caplog.text


@pytest.mark.parametrize("by", ["subscribe", "assign", "subscribePattern"])
def test_a_topic_that_is_not_subscribed_any_more_is_not_said_to_be_gone(log, client, topic, by):
    other = unique("in")
    client.create_topics([NewTopic(other, 1, 1)])
    only = {"subscribe": other, "assign": json.dumps({other: [0]}), "subscribePattern": f"^{other}$"}
    read_before = {topic: {"0": COUNT}, other: {"0": 0}}
    options = {"kafka.bootstrap.servers": log.bootstrap_servers, by: only[by], "startingOffsets": "earliest"}
    reader = StreamReader(parse_options(options, streaming=True))
    with pytest.raises(
        DataLossError, match=f"{topic}-0 was read before, and is not subscribed any more; failOnDataLoss"
    ):
        reader.latestOffset(read_before, ReadAllAvailable())


@pytest.mark.parametrize("by", ["subscribe", "assign"])
def test_a_query_over_what_is_there_goes_on_without_a_topic_that_is_gone(log, client, topic, by):
    """Spark has the end of such a query found before it says where the query was."""
    other = unique("in")
    client.create_topics([NewTopic(other, 1, 1)])
    fill(log, other)
    both = {"subscribe": f"{topic},{other}", "assign": json.dumps({topic: [0], other: [0]})}
    options = {"kafka.bootstrap.servers": log.bootstrap_servers, by: both[by], "startingOffsets": "earliest"}
    start = StreamReader(parse_options(options, streaming=True)).initialOffset()
    gone(client, topic)
    with pytest.raises(OptionError, match=f"topic '{topic}' does not exist"):
        first_end(StreamReader(parse_options(options, streaming=True)))
    for lenient in (False, True):
        reader = StreamReader(parse_options({**options, "failOnDataLoss": str(not lenient)}, streaming=True))
        reader.prepareForTriggerAvailableNow()
        if lenient:
            assert from_tree(reader.latestOffset(start, ReadAllAvailable())) == {TopicPartition(other, 0): COUNT}
        else:
            with pytest.raises(DataLossError, match=f"{topic}-0 is gone"):
                reader.latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_micro_batch_that_was_planned_goes_on_without_a_new_topic_that_was_deleted_since(
    log, client, topic, is_first, caplog
):
    """Spark repeats it after a crash without asking where it ends. Until a first one is done, it asks where that starts."""
    pattern = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribePattern": f"^{topic}.*"}

    def reader(fail_on_data_loss):
        options = {**pattern, "startingOffsets": "earliest", "failOnDataLoss": fail_on_data_loss}
        return StreamReader(parse_options(options, streaming=True))

    before = reader("true")
    start = before.initialOffset()
    short = f"{topic}-short"
    client.create_topics([NewTopic(short, 1, 1)])
    fill(log, short)
    planned = reader("true").latestOffset(start, ReadAllAvailable())
    assert TopicPartition(short, 0) in from_tree(planned)
    gone(client, short)
    start = reader("true").initialOffset() if is_first else start
    with pytest.raises(DataLossError, match=f"{short}-0 is gone before anything of it was read; failOnDataLoss=false"):
        reader("true").partitions(start, planned)
    assert ranges(reader("false"), start, planned) == [(0, COUNT)]
    assert f"{short}-0 is gone before anything of it was read; the query goes on without it" in caplog.text


def test_a_task_whose_topic_is_deleted_says_so(log, client, topic):
    gone(client, topic)
    with pytest.raises(DataLossError, match=f"{topic}-0 is gone"):
        offsets_read(parsed(log, topic), topic, 0)
    assert offsets_read(parsed(log, topic, failOnDataLoss="false"), topic, 0) == []


def test_a_topic_that_was_never_there_is_a_wrong_option(log):
    with pytest.raises(OptionError, match="topic 'nowhere' does not exist"):
        first_end(now(log, "nowhere"))


def make_anew(log, client, topic, count):
    gone(client, topic)
    client.create_topics([NewTopic(topic, 1, 1)])
    fill(log, topic, count)


def ranges(reader, start, end):
    return [part.ranges[0][1:] for part in reader.partitions(start, end)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_that_is_made_anew_with_as_many_records_is_data_loss(log, client, topic, restarts, caplog):
    """Offsets alone cannot tell the two apart: Metadata v10 has the topic's id, and so has the checkpoint."""
    reader, lenient = now(log, topic), now(log, topic, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    lenient.initialOffset()
    make_anew(log, client, topic, COUNT + 5)
    if restarts:
        reader, lenient = now(log, topic), now(log, topic, failOnDataLoss="false")
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and made anew while it was read"):
        reader.latestOffset(end, ReadAllAvailable())
    latest = lenient.latestOffset(end, ReadAllAvailable())
    assert from_tree(latest) == {TopicPartition(topic, 0): COUNT + 5}
    assert ranges(lenient, end, latest) == [(0, COUNT + 5)]
    assert lenient.latestOffset(latest, ReadAllAvailable()) == latest
    assert caplog.text.count("was deleted and made anew while it was read; the query reads the new one from its") == 1


def test_a_limit_divides_what_is_new_of_a_topic_that_was_made_anew(log, client, topic):
    end = now(log, topic).latestOffset(now(log, topic).initialOffset(), ReadAllAvailable())
    make_anew(log, client, topic, COUNT + 5)
    limited = now(log, topic, failOnDataLoss="false", maxOffsetsPerTrigger="8")
    first = limited.latestOffset(end, limited.getDefaultReadLimit())
    second = limited.latestOffset(first, limited.getDefaultReadLimit())
    assert [ranges(limited, end, first), ranges(limited, first, second)] == [[(0, 8)], [(8, 16)]]


def test_a_micro_batch_that_was_planned_before_its_topic_was_made_anew_reads_nothing_of_the_new_one(log, client, topic):
    """Spark repeats it after a crash without asking where it ends."""
    start = now(log, topic).initialOffset()
    end = now(log, topic).latestOffset(start, ReadAllAvailable())
    make_anew(log, client, topic, COUNT + 5)
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and made anew while it was read"):
        now(log, topic).partitions(start, end)
    lenient = now(log, topic, failOnDataLoss="false")
    assert ranges(lenient, start, end) == []
    assert ranges(lenient, end, lenient.latestOffset(end, ReadAllAvailable())) == [(0, COUNT + 5)]


def test_a_checkpoint_without_ids_of_topics_goes_on(log, client, topic):
    """What an older oncelog has written, and Spark's Kafka source."""
    reader = now(log, topic)
    end = reader.latestOffset({topic: {"0": 3}}, ReadAllAvailable())
    assert ranges(reader, {topic: {"0": 3}}, end) == [(3, COUNT)]
    assert reader.latestOffset({topic: {"0": COUNT}}, ReadAllAvailable()) == end
    make_anew(log, client, topic, COUNT + 5)
    with pytest.raises(DataLossError, match="made anew"):
        now(log, topic).latestOffset(end, ReadAllAvailable())


def test_offsets_of_a_checkpoint_are_a_start(log, topic):
    reader = now(log, topic)
    end = first_end(reader)
    assert from_tree(now(log, topic, startingOffsets=json.dumps(end)).initialOffset()) == from_tree(end)
