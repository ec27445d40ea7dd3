"""df.write.format("oncelog") and writeStream.format("oncelog") against brokers."""

from __future__ import annotations

import shutil

import pytest

from harness.names import unique
from oncelog.client import Client, TopicPartition
from oncelog.spark import committed_offsets, progress
from oncelog.spark.sink.fence import parse_metadata
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.drawn(8), pytest.mark.on_a_cluster]

UPPER = ("key", "upper(cast(value as string)) value")


def frame(spark, count, tasks=3):
    return spark.range(0, count, 1, tasks).selectExpr(
        "concat('key-', id % 17) key", "concat('value-', lpad(id, 7, '0')) value"
    )


class BatchWrites:
    def __init__(self, log, staging):
        self.log, self.staging = log, staging
        self.target = topics.create(log.bootstrap_servers, unique("batch"), 3)

    def write(self, rows, mode="append", **options):
        known = {
            "kafka.bootstrap.servers": self.log.bootstrap_servers,
            "topic": self.target,
            "stagingLocation": str(self.staging),
        }
        rows.write.format("oncelog").options(**{**known, **options}).mode(mode).save()

    def output(self):
        return topics.read(self.log.bootstrap_servers, self.target)

    def end(self):
        """How far the topic goes, markers included: one for each partition that a transaction has written."""
        with Client(self.log.bootstrap_servers) as client:
            return sum(client.end_offsets([TopicPartition(self.target, number) for number in range(3)]).values())

    def staged(self):
        return [path for path in self.staging.rglob("*") if path.is_file()]


@pytest.fixture
def writes(spark, log, tmp_path):
    return BatchWrites(log, tmp_path / "staging")


@pytest.fixture
def refused(spark, oncelog_broker, tmp_path):
    """Writes that never come to a broker's own rules."""
    return BatchWrites(oncelog_broker, tmp_path / "staging")


@pytest.mark.parametrize("count", [3_000, 60_000], ids=["inline", "staged"])
def test_a_batch_frame_is_written_in_one_transaction(spark, writes, count):
    writes.write(frame(spark, count))
    assert topics.by_key(writes.output()) == topics.by_key({0: topics.keyed_records(count)})
    assert writes.end() == count + 3
    assert writes.staged() == []


def test_a_write_that_is_repeated_adds_nothing(spark, writes):
    write_id = unique("may")
    for _ in range(2):
        writes.write(frame(spark, 100), writeId=write_id)
    assert len(topics.values(writes.output())) == 100
    assert writes.end() == 103


def test_without_a_write_id_each_run_writes(spark, writes):
    for _ in range(2):
        writes.write(frame(spark, 10))
    assert len(topics.values(writes.output())) == 20


def test_a_frame_without_rows_writes_nothing(spark, writes):
    writes.write(frame(spark, 0))
    writes.write(spark.createDataFrame([], "key string, value string"))
    assert writes.end() == 0


def test_a_task_that_fails_leaves_nothing(spark, writes):
    rows = frame(spark, 60_000).selectExpr("key", "if(value = 'value-0059999', raise_error('broken'), value) value")
    with pytest.raises(Exception, match="broken"):
        writes.write(rows)
    assert (writes.end(), writes.staged()) == (0, [])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (("value",), {"topics": "t"}, "option topics is not known to this sink"),
        (("value",), {"kafka.acks": "1"}, "kafka.acks has to be all"),
        (("value",), {"checkpointLocation": "/tmp"}, "option checkpointLocation is for"),
        (("value", "key user"), {}, "column user would not be written"),
        (("value", "array(key) headers"), {}, "column headers is of type"),
        (("value",), {"topic": "nowhere"}, "there is no topic 'nowhere' at "),
        (("value",), {"kafka.transaction.timeout.ms": "3600000"}, "3600000, and the broker allows at most 900000"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(spark, refused, columns, options, words):
    with pytest.raises(Exception, match=words) as error:
        refused.write(frame(spark, 10).selectExpr(*columns), **options)
    assert "Traceback" not in str(error.value)
    assert refused.end() == 0


@pytest.mark.parametrize(
    ("mode", "words"),
    [("overwrite", "a topic is not overwritten"), ("errorifexists", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE")],
)
def test_records_are_appended_to_a_topic_and_no_other_mode_is_taken(spark, refused, mode, words):
    """Spark takes errorifexists where no mode is given, and refuses it in its own words."""
    with pytest.raises(Exception, match=words) as raised:
        refused.write(frame(spark, 10), mode=mode)
    assert "Traceback" not in str(raised.value)


def test_records_that_cannot_be_written_go_to_the_dead_letter_topic(spark, log, writes):
    dead = topics.create(log.bootstrap_servers, unique("dead"), 1)
    rows = frame(spark, 10).selectExpr("key", "value", "if(value < 'value-0000003', 9, 0) partition")
    writes.write(rows, unwritable="dead-letter", deadLetterTopic=dead)
    assert len(topics.values(writes.output())) == 7
    assert topics.values(topics.read(log.bootstrap_servers, dead)) == [f"value-000000{number}" for number in range(3)]
    with pytest.raises(Exception, match="is for partition 9"):
        writes.write(rows)


class FormatPipeline(Pipeline):
    """The same pipeline, written with format("oncelog")."""

    def start_format(self, rows=None, output_mode="append", trigger=None, checkpoint=None, **options):
        if rows is None:
            rows = self.rows().selectExpr(*UPPER)
        known = {
            "kafka.bootstrap.servers": self.log.bootstrap_servers,
            "topic": self.target,
            "kafka.transactional.id": self.transactional_id,
            "checkpointLocation": str(checkpoint or self.checkpoint),
        }
        told = {name: value for name, value in {**known, **options}.items() if value is not None}
        writing = rows.writeStream.format("oncelog").outputMode(output_mode).options(**told)
        return writing.trigger(**(trigger or {"availableNow": True})).start()

    def run_format(self, *arguments, **options):
        query = self.start_format(*arguments, **options)
        assert query.awaitTermination(180)
        return query


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = FormatPipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


def test_a_stream_is_written_once_with_its_offsets(pipeline):
    query = pipeline.run_format()
    pipeline.assert_copied_once()
    seen = [progress(one) for one in query.recentProgress]
    assert sum(one["sink"]["numOutputRows"] for one in seen) == COUNT
    assert seen[-1]["lag"] == 0
    assert {source["description"] for one in seen for source in one["sources"]} == {
        f"oncelog[Subscribe[{pipeline.source}]]"
    }
    with Client(pipeline.log.bootstrap_servers) as client:
        committed = client.committed_offsets(pipeline.transactional_id)
        ends = client.end_offsets(TopicPartition(pipeline.source, number) for number in range(4))
    assert {item: entry.offset for item, entry in committed.items()} == ends
    assert len({parse_metadata(entry.metadata) for entry in committed.values()}) == 1


def test_a_micro_batch_that_was_committed_before_the_crash_is_not_written_again(pipeline):
    pipeline.run_format()
    before = pipeline.output()
    pipeline.forget_last_commit()
    pipeline.run_format()
    assert pipeline.output() == before
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    pipeline.run_format()
    pipeline.assert_copied_once(COUNT + 10)


def test_a_query_goes_from_foreach_batch_to_the_format_and_back_with_its_checkpoint(pipeline):
    pipeline.run()
    pipeline.forget_last_commit()
    pipeline.run_format()
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    pipeline.run_format()
    pipeline.forget_last_commit()
    assert pipeline.run().metrics.batches_skipped == 1
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT + 10))
    pipeline.run()
    pipeline.assert_copied_once(COUNT + 20)


def test_without_a_transactional_id_the_query_gives_it(pipeline):
    options = {"kafka.transactional.id": None}
    pipeline.run_format(**options)
    pipeline.forget_last_commit()
    pipeline.run_format(**options)
    pipeline.assert_copied_once()


def test_a_stateful_query_goes_on_after_a_repeated_batch(pipeline):
    def totals():
        return pipeline.rows().groupBy("key").count().selectExpr("key", "cast(count as string) value")

    pipeline.run_format(totals(), output_mode="complete")
    before = pipeline.output()
    pipeline.forget_last_commit()
    pipeline.run_format(totals(), output_mode="complete")
    assert pipeline.output() == before
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(17, start=COUNT))
    pipeline.run_format(totals(), output_mode="complete")
    per_key = {key: sum(k == key for k, _ in topics.keyed_records(COUNT + 17)) for key, _ in topics.keyed_records(17)}
    assert {key: int(found[-1]) for key, found in topics.by_key(pipeline.output()).items()} == per_key


def test_a_checkpoint_that_does_not_go_on_where_the_log_is_is_refused(pipeline, tmp_path):
    pipeline.run_format()
    with pytest.raises(Exception, match="another query"):
        pipeline.run_format(checkpoint=tmp_path / "second")
    pipeline.assert_copied_once()
    start = committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)
    rows = pipeline.rows(startingOffsets=start).selectExpr(*UPPER)
    shutil.rmtree(tmp_path / "second")
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    pipeline.run_format(rows, checkpoint=tmp_path / "second", trustCheckpoint="true")
    pipeline.assert_copied_once(COUNT + 10)


def named(rows, name):
    """The rows of a query that has this name, as Spark tells it to a sink."""
    return {"rows": rows, "queryName": name}


def test_two_queries_of_one_sink_each_write_once_with_an_id_that_names_them(pipeline, tmp_path):
    """KIP-98: a transactional id has one producer at a time, and each of the flows of a sink is a query of its own."""
    options = {"kafka.transactional.id": pipeline.transactional_id + "-{query}"}
    rows = pipeline.rows().selectExpr(*UPPER)
    evens, odds = (rows.where(f"cast(right(value, 1) as int) % 2 = {rest}") for rest in (0, 1))
    for _ in range(2):
        flows = [
            pipeline.start_format(**named(part, name), checkpoint=tmp_path / name, **options)
            for name, part in (("even", evens), ("odd", odds))
        ]
        assert all(flow.awaitTermination(180) for flow in flows)
    written = [value for _, value in topics.keyed_records(COUNT)]
    assert topics.values(pipeline.output()) == sorted(value.upper() for value in written)
    with Client(pipeline.log.bootstrap_servers) as client:
        for name in ("even", "odd"):
            assert client.committed_offsets(f"{pipeline.transactional_id}-{name}")


def test_a_query_with_another_name_goes_on_where_the_one_before_has_committed(pipeline, tmp_path):
    """With {query} in its id a flow that is renamed has another id, of which the log knows nothing."""
    options = {"kafka.transactional.id": pipeline.transactional_id + "-{query}"}
    pipeline.run_format(**named(pipeline.rows().selectExpr(*UPPER), "before"), **options)
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(10, start=COUNT))
    start = committed_offsets(pipeline.log.bootstrap_servers, f"{pipeline.transactional_id}-before")
    rows = pipeline.rows(startingOffsets=start).selectExpr(*UPPER)
    pipeline.run_format(**named(rows, "after"), checkpoint=tmp_path / "after", **options)
    pipeline.assert_copied_once(COUNT + 10)


def test_a_second_query_of_one_id_is_told_how_both_get_one(pipeline, tmp_path):
    rows = pipeline.rows().selectExpr(*UPPER)
    pipeline.run_format(**named(rows, "first"))
    with pytest.raises(
        Exception, match=r"FenceError: another query \('first', .*'second' does not.*\{query\}"
    ) as refused:
        pipeline.run_format(**named(rows, "second"), checkpoint=tmp_path / "second")
    assert "Traceback" not in str(refused.value)
    pipeline.assert_copied_once()


def test_a_query_that_begins_anew_writes_everything_again_once_it_is_told_to(pipeline, tmp_path):
    """As after spark-pipelines run --full-refresh-all, which leaves the topic as it is and makes a new checkpoint."""
    rows = pipeline.rows().selectExpr(*UPPER)
    pipeline.run_format(**named(rows, "copy"))
    with pytest.raises(Exception, match=r"full refresh, say trust_checkpoint=True \(option trustCheckpoint\) once"):
        pipeline.run_format(**named(rows, "copy"), checkpoint=tmp_path / "1")
    pipeline.assert_copied_once()
    pipeline.run_format(**named(rows, "copy"), checkpoint=tmp_path / "1", trustCheckpoint="true")
    pipeline.run_format(**named(rows, "copy"), checkpoint=tmp_path / "1")
    pipeline.assert_copied_once(times=2)


def test_an_input_without_kafka_offsets_keeps_its_progress_with_the_output(pipeline, spark, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.txt").write_text("one\ntwo\n")
    rows = spark.readStream.text(str(tmp_path / "files")).selectExpr("value", "value key")
    pipeline.run_format(rows)
    pipeline.forget_last_commit()
    pipeline.run_format(rows)
    assert topics.values(pipeline.output()) == ["one", "two"]


@pytest.fixture
def lone(spark, oncelog_broker, tmp_path):
    """A pipeline that never comes to a broker's own rules."""
    return FormatPipeline(spark, oncelog_broker, tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"writeId": "w"}, "option writeId is for"),
        ({"kafka.enable.idempotence": "false"}, "kafka.enable.idempotence has to be true"),
        (
            {"kafka.transactional.id": "a-{query}"},
            r"kafka.transactional.id has \{query\} in it, and this query has no name",
        ),
        ({"transactional_id": "a"}, "transactional_id is not known to this sink.*did you mean kafka.transactional.id?"),
        ({"output_mode": "update"}, "does not support Update mode"),
    ],
)
def test_a_stream_that_cannot_be_exactly_once_is_refused(lone, options, words):
    with pytest.raises(Exception, match=words) as refused:
        lone.run_format(**options)
    assert "Traceback" not in str(refused.value)
    assert topics.values(lone.output()) == []


def test_a_checkpoint_that_only_the_session_knows_is_refused(lone, spark, tmp_path):
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "of-the-session"))
    try:
        with pytest.raises(Exception, match="checkpointLocation is needed on this query"):
            lone.run_format(checkpointLocation=None)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert topics.values(lone.output()) == []
