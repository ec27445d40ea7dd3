"""format("oncelog") against brokers."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from harness.names import unique
from oncelog.client.values import TopicPartition
from oncelog.spark import lag
from oncelog.spark.offsets import from_tree
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.source.readers import StreamReader
from tests.spark import topics

pytestmark = [pytest.mark.spark, pytest.mark.on_a_cluster]


def options(log, topic, **more):
    return {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": topic, **more}


def batch(spark, log, topic, **more):
    return spark.read.format("oncelog").options(**options(log, topic, **more)).load()


@pytest.fixture
def filled(log):
    topic = topics.create(log.bootstrap_servers, unique("in"))
    topics.produce(log.bootstrap_servers, topic, topics.keyed_records(1000))
    return topic


def test_every_record_is_a_row_and_nothing_was_registered(spark, log, filled):
    rows = batch(spark, log, filled, includeHeaders="true").collect()
    expected = topics.read(log.bootstrap_servers, filled)
    for partition, records in expected.items():
        found = sorted((row.offset, row) for row in rows if row.partition == partition)
        assert [(row.key.decode(), row.value.decode()) for _, row in found] == records
        assert [offset for offset, _ in found] == list(range(len(records)))
    assert {row.topic for row in rows} == {filled}
    assert {row.timestampType for row in rows} == {0}
    assert all(row.headers[0].key == "k" and bytes(row.headers[0].value) == bytes(row.key) for row in rows)


def test_offsets_bound_a_batch_read_and_min_partitions_divide_it(spark, log, filled):
    ends = from_tree(StreamReader(parse_options(options(log, filled), streaming=True)).initialOffset())
    start = {str(item.partition): 3 for item in ends}
    end = {str(item.partition): 23 for item in ends}
    rows = batch(
        spark,
        log,
        filled,
        startingOffsets=json.dumps({filled: start}),
        endingOffsets=json.dumps({filled: end}),
        minPartitions="8",
    )
    assert rows.rdd.getNumPartitions() == 8
    found = rows.select("partition", "offset").collect()
    assert sorted(found) == [(partition, offset) for partition in range(4) for offset in range(3, 23)]


def test_aborted_records_and_markers_leave_gaps_and_no_rows(spark, log, filled):
    topics.produce(log.bootstrap_servers, filled, [("key-1", "never")] * 5, commit=False)
    topics.produce(log.bootstrap_servers, filled, [("key-1", "late")], commit=True)
    committed = [bytes(row.value).decode() for row in batch(spark, log, filled).select("value").collect()]
    assert sorted(committed) == topics.values(topics.read(log.bootstrap_servers, filled))
    uncommitted = batch(spark, log, filled, **{"kafka.isolation.level": "read_uncommitted"})
    assert uncommitted.where("value = 'never'").count() == 5


def test_available_now_reads_everything_once_in_limited_batches(spark, log, filled, tmp_path):
    seen = []
    query = (
        spark.readStream.format("oncelog")
        .options(**options(log, filled, startingOffsets="earliest", maxOffsetsPerTrigger="300"))
        .load()
        .writeStream.foreachBatch(lambda rows, _: seen.append([bytes(row.value).decode() for row in rows.collect()]))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert sorted(value for rows in seen for value in rows) == [value for _, value in topics.keyed_records(1000)]
    assert len(seen) >= 4
    assert all(len(rows) <= 304 for rows in seen)
    first = next(progress for progress in query.recentProgress if progress["numInputRows"])
    assert sum(lag(first).values()) == 1000 - first["numInputRows"]


def test_a_stream_from_the_latest_offset_loses_nothing_when_it_restarts_before_its_first_batch(log, filled):
    """Spark asks a Python source for its initial offset again when no micro-batch was done; `latest` has moved by then."""
    parsed = parse_options(options(log, filled, startingOffsets="latest"), streaming=True)
    reader = StreamReader(parsed)
    start = reader.initialOffset()
    topics.produce(log.bootstrap_servers, filled, [("key-1", "between")])
    logged = reader.latestOffset(start, ReadAllAvailable())

    restarted = StreamReader(parsed)
    assert from_tree(restarted.initialOffset()) == from_tree(logged) != from_tree(start)
    assert [part.ranges[0].size for part in restarted.partitions(restarted.initialOffset(), logged)] == [1]
    assert restarted.latestOffset(logged, ReadAllAvailable()) == logged


def test_a_limit_is_for_the_engine_to_lift(log, filled):
    reader = StreamReader(
        parse_options(options(log, filled, startingOffsets="earliest", maxOffsetsPerTrigger="100"), streaming=True)
    )
    assert reader.getDefaultReadLimit() == ReadMaxRows(100)
    start = reader.initialOffset()
    assert sum(from_tree(reader.latestOffset(start, ReadMaxRows(100))).values()) <= 104
    assert sum(from_tree(reader.latestOffset(start, ReadAllAvailable())).values()) == 1000
    end = from_tree(reader.latestOffset(start, ReadAllAvailable()))
    assert from_tree(reader.reportLatestOffset()) == end


def test_a_minimum_is_waited_for(log, filled):
    reader = StreamReader(
        parse_options(options(log, filled, startingOffsets="earliest", minOffsetsPerTrigger="5000"), streaming=True)
    )
    start = reader.initialOffset()
    assert from_tree(reader.latestOffset(start, reader.getDefaultReadLimit())) == from_tree(start)
    impatient = StreamReader(
        parse_options(
            options(log, filled, startingOffsets="earliest", minOffsetsPerTrigger="5000", maxTriggerDelay="0ms"),
            streaming=True,
        )
    )
    assert sum(from_tree(impatient.latestOffset(start, impatient.getDefaultReadLimit())).values()) == 1000


def test_a_log_that_ends_before_what_was_read_stops_the_stream(log, filled):
    reader = StreamReader(parse_options(options(log, filled), streaming=True))
    beyond = {filled: {str(number): 10_000 for number in range(4)}}
    with pytest.raises(DataLossError, match="10000"):
        reader.latestOffset(beyond, ReadAllAvailable())
    with pytest.raises(DataLossError, match="gone"):
        reader.latestOffset({filled: {str(number): 0 for number in range(5)}}, ReadAllAvailable())
    lenient = StreamReader(parse_options(options(log, filled, failOnDataLoss="false"), streaming=True))
    end = from_tree(lenient.latestOffset(beyond, ReadAllAvailable()))
    assert sum(end.values()) == 1000
    assert list(lenient.partitions(beyond, {filled: {str(item.partition): end[item] for item in end}})) == []


def test_a_pattern_finds_topics_and_times_find_offsets(log, filled):
    found = StreamReader(
        parse_options(
            {
                "kafka.bootstrap.servers": log.bootstrap_servers,
                "subscribePattern": filled.replace("in-", "i[mn]-"),
                "startingTimestamp": "1",
            },
            streaming=True,
        )
    ).initialOffset()
    assert from_tree(found) == {TopicPartition(filled, number): 0 for number in range(4)}
    late = options(log, filled, startingTimestamp="99999999999999", startingOffsetsByTimestampStrategy="latest")
    ends = from_tree(StreamReader(parse_options(late, streaming=True)).initialOffset())
    assert sum(ends.values()) == 1000
    assert TopicPartition(filled, 0) in ends
