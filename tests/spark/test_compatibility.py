"""What has to hold with every release of PySpark that can be installed: `make compatibility` runs this with each of them."""

from __future__ import annotations

import pytest

from oncelog.spark import run_stateless
from oncelog.spark.older_pyspark import HAS_READ_LIMITS, HAS_STREAM_WRITER
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.drawn(8)]

MORE = 50
UPPER = ("key", "upper(cast(value as string)) value")


class Everything(Pipeline):
    """Reads all there is in one micro-batch, which every release can."""

    def rows(self, **options):
        found = {
            "kafka.bootstrap.servers": self.log.bootstrap_servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            **options,
        }
        return self.spark.readStream.format("oncelog").options(**found).load()

    def produce_more(self):
        topics.produce(self.log.bootstrap_servers, self.source, topics.keyed_records(MORE, start=COUNT))


@pytest.fixture
def pipeline(spark, oncelog_broker, tmp_path):
    made = Everything(spark, oncelog_broker, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump", "auto"])
def test_micro_batches_are_written_once_and_skipped_after_a_crash(pipeline, mode):
    assert pipeline.run(mode=mode).metrics.records == COUNT
    pipeline.produce_more()
    assert pipeline.run(mode=mode).metrics.records == MORE
    pipeline.forget_last_commit()
    assert pipeline.run(mode=mode).metrics.batches_skipped == 1
    pipeline.assert_copied_once(COUNT + MORE)


def test_aggregation_goes_on_after_a_crash(pipeline):
    def totals():
        return pipeline.rows().groupBy("key").count().selectExpr("key", "cast(count as string) value")

    pipeline.run(rows=totals(), output_mode="update")
    pipeline.forget_last_commit()
    pipeline.produce_more()
    sink = pipeline.run(rows=totals(), output_mode="update")
    assert sink.metrics.batches_skipped == 1
    if not HAS_READ_LIMITS:
        # There availableNow is over after one micro-batch, here the one that was interrupted.
        pipeline.run(rows=totals(), output_mode="update")
    expected = {key: len(values) for key, values in topics.by_key({0: topics.keyed_records(COUNT + MORE)}).items()}
    assert {key: int(found[-1]) for key, found in topics.by_key(pipeline.output()).items()} == expected


def test_start_at_the_end_of_a_topic_is_kept(pipeline):
    """The first micro-batch of such a query reads nothing: it puts the start into the checkpoint."""

    def from_the_end():
        return pipeline.rows(startingOffsets="latest").selectExpr(*UPPER)

    pipeline.run(rows=from_the_end())
    assert topics.values(pipeline.output()) == []
    pipeline.produce_more()
    assert pipeline.run(rows=from_the_end()).metrics.records == MORE


def test_limit_is_kept_or_refused_in_a_sentence(pipeline):
    rows = pipeline.rows(maxOffsetsPerTrigger="500").selectExpr(*UPPER)
    if HAS_READ_LIMITS:
        assert pipeline.run(rows=rows).metrics.batches >= 3
        pipeline.assert_copied_once()
    else:
        with pytest.raises(
            Exception, match=r"maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4\.2 or newer"
        ):
            pipeline.run(rows=rows)
        assert topics.values(pipeline.output()) == []


def test_query_without_a_checkpoint_is_refused(pipeline):
    query = pipeline.rows().writeStream.foreachBatch(pipeline.sink()).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"QueryError.*checkpointLocation"):
        query.awaitTermination(120)


def test_function_without_state_needs_no_checkpoint(pipeline, spark):
    settings = {
        "from_topic": pipeline.source,
        "to_topic": pipeline.target,
        "transactional_id": pipeline.transactional_id,
        "bootstrap_servers": pipeline.log.bootstrap_servers,
    }

    def run():
        return run_stateless(spark, lambda rows: rows.selectExpr(*UPPER), once=True, **settings)

    assert run().records == COUNT
    pipeline.produce_more()
    assert run().records == MORE
    pipeline.assert_copied_once(COUNT + MORE)


def test_batch_is_read_and_written_in_one_transaction(pipeline, spark, tmp_path):
    options = {"kafka.bootstrap.servers": pipeline.log.bootstrap_servers}
    rows = spark.read.format("oncelog").options(**options, subscribe=pipeline.source).load().selectExpr(*UPPER)
    rows.write.format("oncelog").options(**options, topic=pipeline.target).mode("append").save()
    pipeline.assert_copied_once()


def test_stream_is_written_by_its_format_or_refused_in_a_sentence(pipeline, tmp_path):
    writer = (
        pipeline.rows()
        .selectExpr(*UPPER)
        .writeStream.format("oncelog")
        .option("kafka.bootstrap.servers", pipeline.log.bootstrap_servers)
        .option("topic", pipeline.target)
        .option("kafka.transactional.id", pipeline.transactional_id)
        .option("stagingLocation", str(tmp_path / "staging"))
        .option("checkpointLocation", str(pipeline.checkpoint))
        .trigger(availableNow=True)
    )
    if HAS_STREAM_WRITER:
        assert writer.start().awaitTermination(180)
        pipeline.assert_copied_once()
    else:
        with pytest.raises(Exception, match=r"needs PySpark 4\.1 or newer"):
            writer.start().awaitTermination(180)
        assert topics.values(pipeline.output()) == []
