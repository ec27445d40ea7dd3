"""What a micro-batch takes for lost records, and what it does not."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import Client, NewTopic, Producer
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.source.readers import StreamReader

COUNT = 5
GONE_ID = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def topic(oncelog_broker):
    """Two partitions: one with records, one without."""
    name = unique("losses")
    with Client(oncelog_broker.bootstrap_servers) as client:
        client.create_topics([NewTopic(name, 2)])
    with Producer(oncelog_broker.bootstrap_servers) as producer:
        for number in range(COUNT):
            producer.send(name, b"%d" % number, partition=0)
    return name


@pytest.fixture
def reader(oncelog_broker, topic):
    options = {
        "kafka.bootstrap.servers": oncelog_broker.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    reader = StreamReader(parse_options(options, streaming=True))
    yield reader
    reader.stop()


def test_partition_with_nothing_new_has_lost_nothing(reader, topic):
    start, end = {topic: {"0": 0, "1": 0}}, {topic: {"0": COUNT, "1": 0}}
    assert len(reader.partitions(start, end)) == 1
    assert list(reader.partitions(end, end)) == []


def test_partition_that_ends_before_its_start_has_lost_records(reader, topic):
    start, end = {topic: {"0": 0, "1": 1}}, {topic: {"0": COUNT, "1": 0}}
    with pytest.raises(DataLossError, match="is to be read from offset 1, but ends at 0"):
        reader.partitions(start, end)


def test_topic_that_was_read_and_is_gone_before_the_query_starts_again_is_said_to_be_lost(oncelog_broker, topic):
    """Its micro-batch was planned with an end that has the topic no more: only the start says that it was read."""
    gone = unique("gone")
    options = {"kafka.bootstrap.servers": oncelog_broker.bootstrap_servers, "subscribe": f"{topic},{gone}"}
    reader = StreamReader(parse_options(options, streaming=True))
    start, end = {topic: {"0": 0}, gone: {"0": 3}, f"{gone}@{GONE_ID}": {}}, {topic: {"0": COUNT, "1": 0}}
    with pytest.raises(DataLossError, match=f"{gone}-0 is gone"):
        reader.partitions(start, end)
    reader.stop()
