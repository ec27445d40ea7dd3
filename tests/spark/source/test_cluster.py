"""The partitions and offsets that options name: all of them, whole topics, one that is missing."""

from __future__ import annotations

import json

import pytest

from harness.names import unique
from oncelog.client import Client, NewTopic, Producer, TopicPartition
from oncelog.client.values import OffsetSpec
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.source.cluster import SourceCluster, _assigned, _check_complete
from oncelog.spark.source.readers import BatchReader

COUNT = 5
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EVERY = [A0, A1, B0]


@pytest.fixture
def pair(log):
    """Two topics with two partitions each, and records in the first of them."""
    names = sorted((unique("in"), unique("in")))
    with Client(log.bootstrap_servers) as client, Producer(log.bootstrap_servers) as producer:
        client.create_topics([NewTopic(name, 2, 1) for name in names])
        for name in names:
            for number in range(COUNT):
                producer.send(name, b"%d" % number, partition=0)
    return names


def options_of(log, topics, *, streaming, **more):
    known = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": ",".join(topics)}
    return parse_options({**known, **more}, streaming=streaming)


def test_word_of_a_topic_is_for_all_its_partitions_beside_offsets_of_another(log, pair):
    """SPARK-58774."""
    first, second = pair
    starting = json.dumps({first: "latest", second: {"0": 3, "1": -2}})
    options = options_of(log, pair, streaming=True, startingOffsets=starting)
    assert options.starting.topics == {first: OffsetSpec.LATEST}
    cluster = SourceCluster(options)
    assert cluster.resolve(options.starting, missing_is_latest=False) == {
        TopicPartition(first, 0): COUNT,
        TopicPartition(first, 1): 0,
        TopicPartition(second, 0): 3,
        TopicPartition(second, 1): 0,
    }
    cluster.close()


def test_words_bound_a_batch_read(log, pair):
    first, second = pair
    words = {
        "startingOffsets": json.dumps({first: "earliest", second: {"0": 1, "1": 0}}),
        "endingOffsets": json.dumps({first: {"0": 2, "1": 0}, second: "latest"}),
    }
    ranges = [part.ranges[0] for part in BatchReader(options_of(log, pair, streaming=False, **words)).partitions()]
    found = [(one.partition.topic, one.partition.partition, one.start, one.end) for one in ranges]
    assert found == [(first, 0, 0, 2), (second, 0, 1, COUNT)]


def test_word_of_a_topic_that_is_not_read_is_refused(log, pair):
    first, second = pair
    options = options_of(
        log, [first], streaming=True, startingOffsets=json.dumps({first: "earliest", second: "earliest"})
    )
    cluster = SourceCluster(options)
    with pytest.raises(OptionError, match=f"option startingOffsets names topic '{second}', which is not read"):
        cluster.resolve(options.starting, missing_is_latest=False)
    cluster.close()


@pytest.mark.parametrize("odd", EVERY, ids=str)
def test_one_of_several_assigned_partitions_that_does_not_exist_is_an_error_unless_it_was_read(odd):
    there = [one for one in EVERY if one != odd]
    assert _assigned(EVERY, EVERY, []) == EVERY
    with pytest.raises(OptionError, match="is assigned, but does not exist"):
        _assigned(there, EVERY, [])
    with pytest.raises(OptionError, match="is assigned, but does not exist"):
        _assigned(there, EVERY, there)
    assert _assigned(there, EVERY, [odd]) == there
    assert _assigned(EVERY, there, []) == there


@pytest.mark.parametrize("odd", EVERY, ids=str)
def test_option_that_names_all_partitions_but_one_or_one_too_many_is_an_error(odd):
    there = [one for one in EVERY if one != odd]
    _check_complete("startingOffsets", EVERY, EVERY)
    with pytest.raises(OptionError, match="is missing"):
        _check_complete("startingOffsets", there, EVERY)
    with pytest.raises(OptionError, match="does not exist"):
        _check_complete("startingOffsets", EVERY, there)
    with pytest.raises(OptionError, match="is missing"):
        _check_complete("startingOffsets", [*there, TopicPartition("c", 0)], EVERY)
