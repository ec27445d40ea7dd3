"""What a query does after its driver died between the commit of a micro-batch and Spark's own note of it, and after its
checkpoint was lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client
from oncelog.spark import FenceError, committed_offsets
from oncelog.wire import ErrorCode
from tests.spark import topics
from tests.spark.driver import raising_once
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.drawn(8), pytest.mark.on_a_cluster]


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Pipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


def values(pipeline):
    return topics.values(pipeline.output())


class Windows:
    """Counts by event time: closing a window takes a micro-batch of its own, which reads nothing."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self.source = topics.create(pipeline.log.bootstrap_servers, f"{pipeline.source}-times", 1)

    def add(self, *seconds):
        topics.produce(self.pipeline.log.bootstrap_servers, self.source, [("k", str(second)) for second in seconds])

    def rows(self, **options):
        times = self.pipeline.rows(subscribe=self.source, **options).selectExpr(
            "timestamp_seconds(cast(cast(value as string) as long)) as at"
        )
        counts = times.withWatermark("at", "0 seconds").groupBy(F.window("at", "10 seconds")).count()
        return counts.selectExpr("'k' key", "concat(unix_timestamp(window.start), ' ', count) value")

    def run(self, **settings):
        return self.pipeline.run(rows=self.rows(), output_mode="append", **settings)


def last_batch(pipeline):
    return max(int(path.name) for path in Path(pipeline.checkpoint, "offsets").iterdir() if path.name.isdigit())


def input_lines(pipeline, batch_id):
    return Path(pipeline.checkpoint, "offsets", str(batch_id)).read_text().split("\n")[2:]


def test_a_batch_without_new_data_is_skipped_and_the_query_goes_on(pipeline):
    windows = Windows(pipeline)
    windows.add(1, 2, 11)
    windows.run()
    last = last_batch(pipeline)
    assert input_lines(pipeline, last) == input_lines(pipeline, last - 1)
    assert values(pipeline) == ["0 2"]
    assert pipeline.forget_last_commit() == last
    sink = windows.run()
    assert sink.metrics.batches_skipped == 1
    windows.add(12, 21)
    windows.run()
    assert values(pipeline) == ["0 2", "10 2"]


@pytest.mark.parametrize("topic", ["named", "in a column"])
def test_a_run_that_begins_with_a_batch_without_new_data_commits_the_input(pipeline, topic):
    """The driver dies while a micro-batch that only closes windows runs, before anything of it is committed."""
    windows = Windows(pipeline)
    windows.add(1, 2, 11)
    failing = pipeline.sink()

    def dies_in_the_second(rows, batch_id):
        if batch_id == 1:
            raise RuntimeError("the driver died")
        failing(rows, batch_id)

    with pytest.raises(Exception, match="the driver died"):
        pipeline.start(dies_in_the_second, windows.rows()).awaitTermination(180)
    windows.add(12, 21)
    rows = windows.rows()
    if topic == "in a column":
        rows = rows.withColumn("topic", F.lit(pipeline.target))
    pipeline.run(rows=rows, **({"topic": None} if topic == "in a column" else {}))
    assert values(pipeline) == ["0 2", "10 2"]
    offsets = json.loads(committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id))
    assert offsets == {windows.source: {"0": 5}}


def test_a_new_checkpoint_of_a_run_that_began_without_new_data_repeats_nothing(pipeline, tmp_path):
    windows = Windows(pipeline)
    windows.add(1, 2, 11)
    windows.run()
    pipeline.forget_last_commit()
    windows.add(12, 21)
    windows.run()
    start = committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)
    copied = pipeline.rows(subscribe=windows.source, startingOffsets=start).selectExpr(
        "key", "cast(value as string) value"
    )
    windows.add(99)
    pipeline.run(rows=copied, checkpoint=tmp_path / "second")
    assert values(pipeline) == ["0 2", "10 2", "99"]


def test_a_lost_checkpoint_of_a_query_with_a_static_join_is_recovered(pipeline, spark, tmp_path):
    """As the message says: a new checkpoint that starts at the committed offsets."""

    def joined(**options):
        names = spark.createDataFrame(
            [(f"key-{number}", f"name-{number}") for number in range(17)], "name string, is string"
        )
        names.write.mode("overwrite").parquet(str(tmp_path / "names"))
        static = spark.read.parquet(str(tmp_path / "names"))
        stream = pipeline.rows(**options).selectExpr("cast(key as string) name", "upper(cast(value as string)) value")
        return static.join(stream, "name").selectExpr("name key", "value")

    pipeline.run(rows=joined())
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=1200))
    shutil.rmtree(pipeline.checkpoint)
    with pytest.raises(Exception, match=r"FenceError.*startingOffsets=committed_offsets"):
        pipeline.run(rows=joined())
    shutil.rmtree(pipeline.checkpoint)
    start = committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)
    sink = pipeline.run(rows=joined(startingOffsets=start))
    assert sink.metrics.records == 10
    pipeline.assert_copied_once(1210)


def test_a_second_query_with_another_checkpoint_is_refused_and_the_first_goes_on(pipeline, tmp_path):
    """KIP-98: whoever takes the transactional id fences the one that has it. So the second looks before it takes."""
    intruder = pipeline.sink()
    refused = []
    first = pipeline.sink()

    def write(rows, batch_id):
        first(rows, batch_id)
        if batch_id == 0:
            with pytest.raises(Exception, match=r"FenceError.*another query"):
                pipeline.start(intruder, checkpoint=tmp_path / "second").awaitTermination(180)
            refused.append(batch_id)

    assert pipeline.start(write).awaitTermination(180)
    assert refused == [0]
    assert first.metrics.batches >= 3
    pipeline.assert_copied_once()


def test_state_of_a_skipped_batch_stays_what_was_published(pipeline):
    """A function that draws random numbers comes to something else each time: 31 was published, 33 would be remembered."""
    rows = pipeline.rows(maxOffsetsPerTrigger="10000").selectExpr("key", "cast(rand() * 1000000000 as long) drawn")
    sums = rows.groupBy("key").agg(F.sum("drawn").alias("total")).selectExpr("key", "cast(total as string) value")
    pipeline.run(rows=sums, output_mode="update")
    published = {key: int(totals[-1]) for key, totals in topics.by_key(pipeline.output()).items()}
    pipeline.forget_last_commit()
    sink = pipeline.run(rows=sums, output_mode="update")
    assert sink.metrics.batches_skipped == 1
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, [("key-1", "one more")])
    pipeline.run(rows=sums, output_mode="update")
    totals = topics.by_key(pipeline.output())["key-1"]
    assert 0 <= int(totals[-1]) - published["key-1"] < 1_000_000_000


def test_the_watermark_of_a_skipped_batch_is_the_one_it_had(pipeline):
    """It closes windows. The skipped micro-batch is not computed, so nothing else brings its watermark back."""
    windows = Windows(pipeline)
    windows.add(1, 2, 31)
    sink = pipeline.sink()

    def dies_after_the_first(rows, batch_id):
        sink(rows, batch_id)
        raise RuntimeError("the driver died")

    with pytest.raises(Exception, match="the driver died"):
        pipeline.start(dies_after_the_first, windows.rows()).awaitTermination(180)
    assert values(pipeline) == []
    assert windows.run().metrics.batches_skipped == 1
    assert values(pipeline) == ["0 2"]
    windows.add(3, 42)
    windows.run()
    assert values(pipeline) == ["0 2", "30 1"]


def test_partitions_that_are_read_no_more_are_no_input(pipeline, spark, tmp_path):
    other = topics.create(pipeline.log.bootstrap_servers, f"{pipeline.source}-other", 1)
    topics.produce(pipeline.log.bootstrap_servers, other, [("key-1", "other")])

    def rows(*names, **options):
        return pipeline.rows(subscribe=",".join(names), **options).selectExpr(
            "key", "upper(cast(value as string)) value"
        )

    pipeline.run(rows=rows(pipeline.source, other))
    start = json.loads(committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id))
    assert start.keys() == {pipeline.source, other}
    del start[other]
    pipeline.run(rows=rows(pipeline.source, startingOffsets=json.dumps(start)), checkpoint=tmp_path / "second")
    found = json.loads(committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id))
    assert found.keys() == {pipeline.source}


DAY_MS = 24 * 60 * 60 * 1000


def age_first_batch(pipeline, age_ms):
    """Leave the checkpoint as if its micro-batch 0 had been planned so long ago."""
    file = Path(pipeline.checkpoint, "offsets", "0")
    file.with_name(".0.crc").unlink(missing_ok=True)
    version, text, *lines = file.read_text().split("\n")
    metadata = json.loads(text)
    metadata["batchTimestampMs"] -= age_ms
    file.write_text("\n".join([version, json.dumps(metadata), *lines]))


def by_function(pipeline, rows):
    pipeline.run(rows=rows)


def by_name(pipeline, rows):
    servers = {
        "kafka.bootstrap.servers": pipeline.log.bootstrap_servers,
        "checkpointLocation": str(pipeline.checkpoint),
    }
    names = {"topic": pipeline.target, "kafka.transactional.id": pipeline.transactional_id}
    query = rows.writeStream.format("oncelog").options(**servers, **names).trigger(availableNow=True).start()
    assert query.awaitTermination(180)


def forget(pipeline, *suffixes):
    """What a broker does with the offsets of a group once they have expired."""
    with Client(pipeline.log.bootstrap_servers) as client:
        for suffix in suffixes:
            group = f"{pipeline.transactional_id}{suffix}"
            client.delete_offsets(group, list(client.committed_offsets(group)))
            until(lambda group=group: client.committed_offsets(group) == {})


@pytest.mark.parametrize("write", [by_function, by_name])
def test_an_old_first_batch_whose_record_may_have_expired_is_not_written_again(pipeline, write):
    rows = pipeline.rows(maxOffsetsPerTrigger="10000").selectExpr("key", "upper(cast(value as string)) value")
    write(pipeline, rows)
    assert pipeline.forget_last_commit() == 0
    age_first_batch(pipeline, 8 * DAY_MS)
    forget(pipeline, "", "-fence")
    with pytest.raises(Exception, match=r"FenceError.*micro-batch 0 .*offsets.retention.minutes"):
        write(pipeline, rows)
    pipeline.assert_copied_once()


@pytest.mark.parametrize("write", [by_function, by_name])
def test_a_query_whose_offsets_have_expired_goes_on(pipeline, write):
    rows = pipeline.rows().selectExpr("key", "upper(cast(value as string)) value")
    write(pipeline, rows)
    forget(pipeline, "")
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=1200))
    write(pipeline, rows)
    pipeline.assert_copied_once(1210)
    pipeline.forget_last_commit()
    forget(pipeline, "")
    write(pipeline, rows)
    pipeline.assert_copied_once(1210)


def test_an_old_copy_of_the_checkpoint_is_refused_after_the_offsets_have_expired(pipeline, tmp_path):
    pipeline.run()
    shutil.copytree(pipeline.checkpoint, tmp_path / "copy")
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=1200))
    pipeline.run()
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=1210))
    forget(pipeline, "")
    with pytest.raises(Exception, match=r"FenceError.*old copy"):
        pipeline.run(checkpoint=tmp_path / "copy")
    pipeline.assert_copied_once(1210)


def test_a_first_batch_that_was_interrupted_some_days_ago_is_written(pipeline):
    """Had it been committed, its record would still be there."""

    def dies(rows, batch_id):
        raise RuntimeError("the driver died")

    with pytest.raises(Exception, match="the driver died"):
        pipeline.start(dies).awaitTermination(180)
    age_first_batch(pipeline, 6 * DAY_MS)
    pipeline.run()
    pipeline.assert_copied_once()


def test_a_group_without_offsets_of_a_sink_is_an_error(pipeline):
    with pytest.raises(FenceError, match="no sink has committed"):
        committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)


class Short:
    """A second topic that the pipeline reads, until somebody deletes it."""

    def __init__(self, pipeline):
        self.pipeline, self.topic = pipeline, topics.create(pipeline.log.bootstrap_servers, unique("short"), 1)
        self.add(9)

    def add(self, count):
        found = [("short", f"short-{number}") for number in range(count)]
        topics.produce(self.pipeline.log.bootstrap_servers, self.topic, found)

    def rows(self):
        both = f"{self.pipeline.source},{self.topic}"
        return self.pipeline.rows(subscribe=both, failOnDataLoss="false").select("key", "value")

    def delete(self):
        with Client(self.pipeline.log.bootstrap_servers) as client:
            client.delete_topics([self.topic])
            until(lambda: client.metadata([self.topic])[self.topic].error is ErrorCode.unknown_topic_or_partition)

    def assert_the_others_were_copied_once(self, count=COUNT):
        others = [value for value in values(self.pipeline) if not value.startswith("short-")]
        assert others == sorted(value for _, value in topics.keyed_records(count))
        with Client(self.pipeline.log.bootstrap_servers) as client:
            committed = client.committed_offsets(self.pipeline.transactional_id)
        assert {item.topic for item in committed} == {self.pipeline.source}


def test_topic_that_is_deleted_in_the_middle_of_a_micro_batch_is_left_out(pipeline):
    short, sink = Short(pipeline), pipeline.sink()

    def write(rows, batch_id):
        if batch_id == 1:
            short.delete()
        sink(rows, batch_id)

    assert pipeline.start(write, short.rows()).awaitTermination(180)
    short.assert_the_others_were_copied_once()


@pytest.mark.parametrize("write", [by_function, by_name])
def test_topic_that_was_deleted_while_nothing_ran_does_not_stop_the_micro_batch_that_was_planned(
    pipeline, tmp_path, write
):
    short, flag = Short(pipeline), tmp_path / "flag"
    rows = short.rows().mapInArrow(raising_once(str(flag)), "key binary, value binary")
    write(pipeline, rows)
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    short.add(1)
    flag.touch()
    with pytest.raises(Exception, match="failed once, as it was told to"):
        write(pipeline, rows)
    short.delete()
    write(pipeline, rows)
    short.assert_the_others_were_copied_once(COUNT + 10)
