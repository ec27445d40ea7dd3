"""Tasks that read many partitions, one after the other, and a sink that makes no task of each."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from harness.names import unique
from harness.waiting import until
from oncelog.client import Client, TopicPartition
from oncelog.spark import write_exactly_once
from oncelog.spark.options.source_options import parse_options
from oncelog.spark.source import reading
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.source.readers import BatchReader
from tests.spark import topics
from tests.spark.pipelines import Pipeline

pytestmark = pytest.mark.spark

COUNT = 40
LOST = 3
"""The partition of which records are deleted."""


def produce(log, topic, seed, *, commit=None, count=COUNT):
    """Few records into some partitions, many into one, and none into others. The key names the partition."""
    drawn = random.Random(seed)
    sizes = [drawn.choice([0, 1, 7, 20]) for _ in range(count)]
    sizes[LOST], sizes[count // 2] = 9, 500
    records = [(number, f"{seed}-{place}") for number, size in enumerate(sizes) for place in range(size)]
    topics.produce_to(log.bootstrap_servers, topic, records, commit=commit)


@pytest.fixture
def topic(log):
    """Committed, aborted and plain records."""
    name = topics.create(log.bootstrap_servers, unique("many"), COUNT)
    for seed, commit in enumerate((None, True, False, True)):
        produce(log, name, seed, commit=commit)
    return name


def reader_of(log, topic, **options):
    known = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": topic}
    return BatchReader(parse_options(known | options, streaming=False))


def rows_of(reader, task):
    """Topic, partition, offset, key and value of each row, in the order in which the task gives them."""
    names = ("topic", "partition", "offset", "key", "value")
    return [
        row for batch in reader.read(task) for row in zip(*(batch[name].to_pylist() for name in names), strict=True)
    ]


@pytest.mark.parametrize("tasks_max", [1, 3, 16])
def test_tasks_have_every_committed_record_in_order_and_give_the_same_again(log, topic, tasks_max):
    reader = reader_of(log, topic, maxPartitions=str(tasks_max))
    tasks = reader.partitions()
    assert tasks_max // 2 < len(tasks) <= tasks_max
    rows = [row for task in tasks for row in rows_of(reader, task)]
    assert [row[1:3] for row in rows] == sorted(row[1:3] for row in rows), "by partition, then by offset"
    assert rows == [row for task in tasks for row in rows_of(reader, task)]
    found = {number: [] for number in range(COUNT)}
    for _, number, _, key, value in rows:
        found[number].append((key.decode(), value.decode()))
    assert found == topics.read(log.bootstrap_servers, topic)


def test_limits_on_tasks_keep_each_record_once(log, topic):
    whole = [row for task in reader_of(log, topic).partitions() for row in rows_of(reader_of(log, topic), task)]
    for options in ({"maxRecordsPerPartition": "70"}, {"minPartitions": "60"}, {"maxRecordsPerPartition": "9"}):
        reader = reader_of(log, topic, maxPartitions="60", **options)
        tasks = reader.partitions()
        assert [row for task in tasks for row in rows_of(reader, task)] == whole
        records_max = int(options.get("maxRecordsPerPartition", "1000000"))
        assert all(sum(part.size for part in task.ranges) <= records_max for task in tasks)
        assert len(tasks) <= 60 or "maxRecordsPerPartition" in options


def test_small_partitions_come_together_and_as_often_as_they_are_fetched_together(log, topic, monkeypatch):
    reader = reader_of(log, topic, maxPartitions="1", includeHeaders="true")
    (task,) = reader.partitions()
    (together,) = reader.read(task)
    assert [found[0]["value"] for found in together["headers"].to_pylist()] == together["key"].to_pylist()
    monkeypatch.setattr(reading, "AHEAD_PARTITIONS", 7)
    monkeypatch.setattr(reading, "JOINED_BYTES", 1)
    apart = list(reader.read(task))
    assert len(apart) > 10
    assert pa.Table.from_batches(apart).equals(pa.Table.from_batches([together]))


def test_two_reads_of_one_process_do_not_disturb_each_other(log, topic, monkeypatch):
    """Neither where Spark has rows enough before a task's end."""
    monkeypatch.setattr(reading, "JOINED_BYTES", 1)
    reader = reader_of(log, topic, maxPartitions="1")
    (task,) = reader.partitions()
    whole = rows_of(reader, task)
    for _ in range(2):
        first = reader.read(task)
        begun = next(first)
        assert rows_of(reader, task) == whole
        rest = sum(batch.num_rows for batch in first)
        assert begun.num_rows + rest == len(whole)
        abandoned = reader.read(task)
        next(abandoned)
        abandoned.close()
        assert rows_of(reader, task) == whole


def delete_first_records(log, topic):
    with Client(log.bootstrap_servers) as client:
        client.delete_records({TopicPartition(topic, LOST): 4})


def test_records_lost_in_one_partition_end_the_task_or_are_left_out_alone(log, topic, caplog):
    strict, lenient = (reader_of(log, topic, maxPartitions="1", failOnDataLoss=text) for text in ("true", "false"))
    (task,) = strict.partitions()
    before = rows_of(strict, task)
    delete_first_records(log, topic)
    with pytest.raises(DataLossError, match=f"{topic}-{LOST} no longer has offset 0, and 0 to .* are to be read"):
        rows_of(strict, task)
    assert rows_of(lenient, task) == [row for row in before if row[1] != LOST or row[2] >= 4]
    assert caplog.text.count("what is gone is left out") == 1


def test_topic_deleted_among_others_of_a_task_is_lost_alone(log, topic, caplog):
    other = topics.create(log.bootstrap_servers, f"{topic}-other", 3)
    topics.produce_to(log.bootstrap_servers, other, [(number % 3, "v") for number in range(30)])
    both = f"{topic},{other}"
    strict, lenient = (reader_of(log, both, maxPartitions="1", failOnDataLoss=text) for text in ("true", "false"))
    (task,) = strict.partitions()
    before = rows_of(strict, task)
    with Client(log.bootstrap_servers) as client:
        client.delete_topics([other])
        until(lambda: client.metadata([other])[other].error.name == "unknown_topic_or_partition")
    with pytest.raises(DataLossError, match=f"{other}-0 is gone"):
        rows_of(strict, task)
    assert rows_of(lenient, task) == [row for row in before if row[0] == topic]
    assert caplog.text.count("is gone, and") == 3


class Jobs:
    """How many tasks each stage of a group of jobs has had."""

    def __init__(self, spark, group):
        self._tracker = spark.sparkContext.statusTracker()
        self._group = group

    def tasks(self):
        jobs = [self._tracker.getJobInfo(number) for number in self._tracker.getJobIdsForGroup(self._group)]
        stages = [self._tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
        return sorted(stage.numTasks for stage in stages if stage is not None and stage.numCompletedTasks)


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump"])
def test_query_of_many_partitions_has_two_tasks_a_core_and_is_exactly_once(spark, oncelog_broker, tmp_path, mode):
    pipeline = Pipeline(spark, oncelog_broker, tmp_path / "checkpoint")
    pipeline.source = topics.create(oncelog_broker.bootstrap_servers, unique("many-in"), 60)
    pipeline.target = topics.create(oncelog_broker.bootstrap_servers, unique("many-out"), 60)
    records = topics.keyed_records(1800, keys=200)
    topics.produce(oncelog_broker.bootstrap_servers, pipeline.source, records)
    query = pipeline.start(rows=pipeline.rows(maxOffsetsPerTrigger="600").select("key", "value"), mode=mode)
    assert query.awaitTermination(180)
    (sink,) = pipeline.sinks
    assert (sink.metrics.batches, sink.metrics.retries) == (3, 0)
    assert topics.by_key(pipeline.output()) == topics.by_key({0: records})
    tasks = Jobs(spark, str(query.runId)).tasks()
    assert tasks, "Spark has forgotten its jobs"
    assert max(tasks) <= 4
    sink.close()


@pytest.mark.parametrize("mode", ["shared-producer", "driver-pump"])
def test_what_many_tasks_have_encoded_is_sent_by_few(spark, oncelog_broker, mode):
    target = topics.create(oncelog_broker.bootstrap_servers, unique("few"), 6)
    rows = spark.range(0, 3000, 1, 50).select(
        F.expr("concat('key-', id % 17) key"), F.expr("concat('value-', lpad(id, 7, '0')) value")
    )
    group = unique("jobs")
    spark.sparkContext.setJobGroup(group, "a write")
    try:
        write_exactly_once(rows, topic=target, bootstrap_servers=oncelog_broker.bootstrap_servers, mode=mode)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    found = topics.by_key(topics.read(oncelog_broker.bootstrap_servers, target))
    assert found == topics.by_key({0: topics.keyed_records(3000)})
    tasks = Jobs(spark, group).tasks()
    assert tasks.count(50) == 1, "where the rows are computed"
    assert all(number <= 4 for number in tasks if number != 50)
