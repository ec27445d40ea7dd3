"""exactly_once(...) against brokers."""

from __future__ import annotations

import shutil

import pytest
from pyspark import InheritableThread
from pyspark.sql import functions as F

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, TopicPartition
from oncelog.spark import committed_offsets, exactly_once
from oncelog.spark.plan import Mode
from oncelog.spark.sink import micro_batches
from oncelog.spark.sink.fence import progress_from
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.drawn(8), pytest.mark.on_a_cluster]


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Pipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump", "auto"])
def test_every_record_is_written_once_in_the_order_of_its_key(pipeline, mode):
    sink = pipeline.run(mode=mode)
    pipeline.assert_copied_once()
    assert sink.metrics.records == COUNT
    assert sink.metrics.batches >= 3
    assert sink.metrics.retries == 0
    assert sink.last_batch.transaction_ms > 0
    if mode != "auto":
        assert sink.last_batch.mode is Mode(mode)
    with Client(pipeline.log.bootstrap_servers) as client:
        committed = client.committed_offsets(pipeline.transactional_id)
        ends = client.end_offsets(TopicPartition(pipeline.source, number) for number in range(4))
        (state,) = client.describe_transactions([pipeline.transactional_id]).values()
    assert {item: entry.offset for item, entry in committed.items()} == ends
    assert progress_from(committed).newest.batch_id == sink.last_batch.batch_id
    assert progress_from(committed).offsets == ends
    assert state.state in ("CompleteCommit", "PrepareCommit")


def test_a_batch_that_was_committed_before_the_crash_is_skipped(pipeline):
    pipeline.run()
    last = pipeline.forget_last_commit()
    sink = pipeline.run()
    assert sink.last_batch.batch_id == last
    assert sink.last_batch.is_skipped
    assert sink.metrics.records == 0
    pipeline.assert_copied_once()


def test_a_stateful_query_goes_on_after_a_skipped_batch(pipeline):
    def totals():
        rows = pipeline.rows().groupBy("key").count()
        return rows.selectExpr("key", "cast(count as string) value")

    pipeline.run(rows=totals(), output_mode="update")
    before = pipeline.output()
    pipeline.forget_last_commit()
    sink = pipeline.run(rows=totals(), output_mode="update")
    assert sink.metrics.batches_skipped == 1
    assert pipeline.output() == before
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(17, start=COUNT))
    sink = pipeline.run(rows=totals(), output_mode="update")
    assert sink.metrics.batches_skipped == 0
    per_key = {key: sum(k == key for k, _ in topics.keyed_records(COUNT + 17)) for key, _ in topics.keyed_records(17)}
    assert {key: int(found[-1]) for key, found in topics.by_key(pipeline.output()).items()} == per_key


def test_large_batches_are_collected_once_one_like_them_was_seen(pipeline):
    """Nothing says how much the first of them will write, so tasks write it. What a state gives out, nothing ever says."""
    added = [(f"k{number % 7}", f"{number:0150d}") for number in range(60_000)]
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, added)
    modes, sink = [], pipeline.sink()

    def watched(rows, batch_id):
        sink(rows, batch_id)
        modes.append(sink.last_batch.mode)

    rows = pipeline.rows(maxOffsetsPerTrigger="21000").select("key", "value")
    assert pipeline.start(watched, rows).awaitTermination(180)
    assert modes == [Mode.SHARED_PRODUCER, Mode.DRIVER_PUMP, Mode.DRIVER_PUMP]
    expected = topics.by_key({0: [*topics.keyed_records(COUNT), *added]})
    assert topics.by_key(pipeline.output()) == expected


def test_a_second_driver_fences_the_first(pipeline, monkeypatch):
    """KIP-98: InitProducerId with the same transactional id fences the producer that had it."""
    first = pipeline.sink()
    took_over = []

    def write(rows, batch_id):
        if batch_id == 1:
            second = exactly_once(
                topic=pipeline.target,
                transactional_id=pipeline.transactional_id,
                bootstrap_servers=pipeline.log.bootstrap_servers,
            )
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(micro_batches, "_given", {})
                second(rows, batch_id)
            took_over.append(second)
        first(rows, batch_id)

    query = pipeline.start(write)
    with pytest.raises(Exception, match="ProducerFenced"):
        query.awaitTermination(180)
    assert took_over[0].last_batch.batch_id == 1
    took_over[0].close()
    pipeline.run()
    pipeline.assert_copied_once()


def two_of_one_id(pipeline, other):
    return pipeline.sink(), pipeline.sink(topic=other)


def two_of_one_group(pipeline, other):
    group = unique("group")
    return pipeline.sink(group_id=group), pipeline.sink(topic=other, group_id=group, transactional_id=unique("other"))


def two_at_addresses_of_their_own(pipeline, other):
    group, here = unique("group"), pipeline.log.bootstrap_servers
    elsewhere = here.replace("127.0.0.1", "localhost")
    assert elsewhere != here
    second = pipeline.sink(topic=other, group_id=group, transactional_id=unique("other"), bootstrap_servers=elsewhere)
    return pipeline.sink(group_id=group), second


def one(pipeline, other):
    sink = pipeline.sink(topic=None)
    return sink, sink


@pytest.mark.parametrize("sinks", [two_of_one_id, two_of_one_group, two_at_addresses_of_their_own, one])
def test_a_second_part_of_a_micro_batch_is_not_taken_for_its_repetition(pipeline, sinks):
    other = topics.create(pipeline.log.bootstrap_servers, unique("other"), 1)
    first, second = sinks(pipeline, other)

    def write(rows, batch_id):
        first(rows.withColumn("topic", F.lit(pipeline.target)), batch_id)
        second(rows.withColumn("topic", F.lit(other)), batch_id)

    for _ in range(2):
        with pytest.raises(
            Exception, match=r"QueryError: micro-batch 0 is committed .* with a sink that has a transact"
        ):
            pipeline.start(write).awaitTermination(180)
    third = pipeline.sink(topic=other, transactional_id=unique("third"))

    def write_both(rows, batch_id):
        first(rows.withColumn("topic", F.lit(pipeline.target)), batch_id)
        third(rows.withColumn("topic", F.lit(other)), batch_id)

    assert pipeline.start(write_both).awaitTermination(180)
    pipeline.assert_copied_once()
    assert topics.values(topics.read(pipeline.log.bootstrap_servers, other)) == topics.values(pipeline.output())


def test_two_parts_at_once_are_not_both_taken_for_the_micro_batch(pipeline, tmp_path):
    other = topics.create(pipeline.log.bootstrap_servers, unique("other"), 1)
    first, second = two_of_one_group(pipeline, other)
    is_computing, may_end = tmp_path / "is-computing", tmp_path / "may-end"

    def held(batches):
        is_computing.touch()
        until(may_end.exists)
        yield from batches

    def write(rows, batch_id):
        writing = InheritableThread(first, args=(rows.mapInArrow(held, rows.schema), batch_id))
        writing.start()
        until(is_computing.exists)
        try:
            second(rows, batch_id)
        finally:
            may_end.touch()
            writing.join()

    with pytest.raises(Exception, match="QueryError: micro-batch 0 is committed"):
        pipeline.start(write).awaitTermination(180)
    pipeline.run(first)
    pipeline.assert_copied_once()
    assert topics.values(topics.read(pipeline.log.bootstrap_servers, other)) == []


def test_a_lost_fence_record_stops_the_query(pipeline):
    pipeline.run()
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    with pytest.raises(Exception, match=r"FenceError.*offsets.retention.minutes"):
        pipeline.run(group_id=unique("another"))
    pipeline.run()
    pipeline.assert_copied_once(COUNT + 10)


def test_a_new_checkpoint_goes_on_from_the_committed_offsets_and_from_nowhere_else(pipeline, tmp_path):
    pipeline.run()
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    with pytest.raises(Exception, match=r"FenceError.*another query"):
        pipeline.run(checkpoint=tmp_path / "second")
    shutil.rmtree(tmp_path / "second")
    start = committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)
    rows = pipeline.rows(startingOffsets=start).selectExpr("key", "upper(cast(value as string)) value")
    sink = pipeline.run(rows=rows, checkpoint=tmp_path / "third")
    assert sink.metrics.records == 10
    pipeline.assert_copied_once(COUNT + 10)


def test_an_old_copy_of_the_checkpoint_stops_the_query(pipeline, tmp_path):
    topics_limit = pipeline.rows(maxOffsetsPerTrigger="300").selectExpr("key", "upper(cast(value as string)) value")
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint / "commits")
    for batch_id in (1, 2, 3):
        (pipeline.checkpoint / "offsets" / str(batch_id)).unlink(missing_ok=True)
        (pipeline.checkpoint / "offsets" / f".{batch_id}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"FenceError"):
        pipeline.run(rows=topics_limit)
    pipeline.assert_copied_once()


def test_a_query_without_a_checkpoint_is_refused(pipeline):
    query = pipeline.rows().writeStream.foreachBatch(pipeline.sink()).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"QueryError.*checkpointLocation"):
        query.awaitTermination(120)
    assert topics.values(pipeline.output()) == []


def test_a_query_that_logs_its_offsets_late_is_refused(pipeline):
    """Asynchronous progress tracking may change a micro-batch's offsets when it is repeated; Spark refuses it first."""
    with pytest.raises(Exception, match="async progress tracking"):
        pipeline.start(trigger={"processingTime": "0 seconds"}, options={"asyncProgressTrackingEnabled": "true"})


def test_outside_of_a_stream_the_sink_is_refused(pipeline, spark):
    with pytest.raises(Exception, match="not a streaming query"):
        pipeline.sink()(spark.range(1).selectExpr("'1' value"), 0)


def test_an_input_without_kafka_offsets_keeps_its_progress_with_the_output(pipeline, spark, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.txt").write_text("one\ntwo\n")
    rows = spark.readStream.text(str(tmp_path / "files")).selectExpr("value", "value key")
    pipeline.run(rows=rows)
    pipeline.forget_last_commit()
    sink = pipeline.run(rows=rows)
    assert sink.metrics.batches_skipped == 1
    assert topics.values(pipeline.output()) == ["one", "two"]
    (tmp_path / "files" / "2.txt").write_text("three\n")
    pipeline.run(rows=rows)
    assert topics.values(pipeline.output()) == ["one", "three", "two"]


@pytest.mark.jvm
def test_an_input_on_another_cluster_keeps_its_progress_with_the_output(spark, kafka, oncelog_broker, tmp_path):
    """A cluster commits no offsets of topics that it lacks: they go to the input's own cluster after the transaction."""
    pipeline = Pipeline(spark, oncelog_broker, tmp_path / "checkpoint", source_log=kafka)
    pipeline.run()
    pipeline.forget_last_commit()
    sink = pipeline.run()
    assert sink.metrics.batches_skipped == 1
    pipeline.assert_copied_once()
    with Client(kafka.bootstrap_servers) as client:
        committed = client.committed_offsets(pipeline.transactional_id)
        ends = client.end_offsets(TopicPartition(pipeline.source, number) for number in range(4))
    assert {item: entry.offset for item, entry in committed.items()} == ends
    sink.close()
