"""How far behind a query is, for whoever listens to its progress."""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from harness.names import unique
from oncelog.client import ProducerIdentity
from oncelog.client.values import TopicPartition
from oncelog.spark import BatchReport, lag, progress, source_metrics
from oncelog.spark.metrics import REPORTS_MAX, RecentReports
from oncelog.spark.query_progress import source_description
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

RATE = {"description": "RateStreamV2[...]", "endOffset": "17", "latestOffset": "18"}


def reported(latest, end):
    return {"description": "PythonMicroBatchStream@4a", "latestOffset": latest, "endOffset": end}


@pytest.mark.parametrize(
    ("latest", "end", "behind"),
    [
        ({"a": {"0": 10, "1": 5}}, {"a": {"0": 7, "1": 5}}, ("0", "3", "1.5")),
        ('{"a":{"0":10}}', '{"a":{"0":10}}', ("0", "0", "0.0")),
        ({"a": {"0": 10, "1": 4}}, {"a": {"0": 9}}, ("1", "4", "2.5")),
    ],
)
def test_metrics_are_those_of_sparks_own_source(latest, end, behind):
    names = ("minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest")
    assert source_metrics({"sources": [reported(latest, end), RATE]}) == [dict(zip(names, behind, strict=True)), {}]


@pytest.mark.parametrize("latest", [None, "null", "None", {}])
def test_a_source_that_has_not_looked_yet_has_no_metrics(latest):
    progress = {"sources": [reported(latest, {"a": {"0": 3}})]}
    assert source_metrics(progress) == [{}]
    assert lag(progress) == {}


def test_a_description_names_the_topics():
    assert source_description(reported({}, {"b": {"0": 1}, "a": {"1": 2, "0": 3}})) == "oncelog[Subscribe[a, b]]"
    assert source_description(RATE) == RATE["description"]


class Listener(StreamingQueryListener):
    """Keeps what a query is behind after each micro-batch."""

    def __init__(self):
        self.behind = []
        self.metrics = []
        self.ended = threading.Event()

    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        self.behind.append(lag(event.progress))
        self.metrics += source_metrics(event.progress)

    def onQueryTerminated(self, event):
        self.ended.set()


@pytest.mark.spark
def test_a_listener_sees_a_query_catch_up(spark, log, tmp_path):
    topic = topics.create(log.bootstrap_servers, unique("in"), 2)
    topics.produce(log.bootstrap_servers, topic, topics.keyed_records(100))
    listener = Listener()
    spark.streams.addListener(listener)
    options = {"kafka.bootstrap.servers": log.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    try:
        rows = spark.readStream.format("oncelog").options(**options, maxOffsetsPerTrigger="40").load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination(120)
        assert listener.ended.wait(60)
    finally:
        spark.streams.removeListener(listener)
    behind = [sum(partitions.values()) for partitions in listener.behind]
    assert behind[0] in range(58, 62)
    assert behind == sorted(behind, reverse=True)
    assert behind[-1] == 0
    assert listener.behind[0].keys() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert listener.metrics[-1] == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "0",
        "avgOffsetsBehindLatest": "0.0",
    }
    assert int(listener.metrics[0]["maxOffsetsBehindLatest"]) == max(listener.behind[0].values())


class Watcher(StreamingQueryListener):
    """Keeps the progress of one query, as a user would send it elsewhere."""

    def __init__(self, sink):
        self.sink, self.seen, self.ended = sink, [], threading.Event()

    def onQueryStarted(self, event): ...

    def onQueryProgress(self, event):
        self.seen.append(progress(event.progress, self.sink))

    def onQueryIdle(self, event): ...

    def onQueryTerminated(self, event):
        self.ended.set()


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Pipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


@pytest.mark.spark
def test_listener_sees_what_each_micro_batch_wrote(spark, pipeline):
    sink = pipeline.sink()
    watcher = Watcher(sink)
    rows = pipeline.rows().observe("read", F.count(F.lit(1)).alias("rows"))
    spark.streams.addListener(watcher)
    try:
        query = pipeline.start(sink, rows.where("offset % 2 = 0").select("key", "value"))
        assert query.awaitTermination(180)
        assert watcher.ended.wait(60)
    finally:
        spark.streams.removeListener(watcher)
    assert [seen["batchId"] for seen in watcher.seen] == list(range(len(watcher.seen)))
    assert sum(seen["sink"]["numOutputRows"] for seen in watcher.seen) == len(topics.values(pipeline.output()))
    assert sum(seen["numInputRows"] for seen in watcher.seen) == COUNT
    assert sum(seen["observedMetrics"]["read"]["rows"] for seen in watcher.seen) == COUNT
    lags = [seen["lag"] for seen in watcher.seen]
    assert lags == sorted(lags, reverse=True)
    assert (lags[0] > 0, lags[-1]) == (True, 0)
    for seen in watcher.seen:
        report = sink.report(seen["batchId"])
        metrics = seen["sink"]["metrics"]
        assert (metrics["attempts"], metrics["skipped"]) == (1, False)
        assert metrics["epoch"] == report.identity.epoch
        assert 0 < metrics["transactionMs"] <= metrics["totalMs"]
        json.dumps(seen)
    epochs = [seen["sink"]["metrics"]["epoch"] for seen in watcher.seen]
    assert epochs == sorted(set(epochs))


@pytest.mark.spark
def test_last_progress_of_a_query_has_the_same(pipeline):
    sink = pipeline.sink()
    query = pipeline.start(sink)
    assert query.awaitTermination(180)
    seen = progress(query.lastProgress, sink)
    assert seen["id"] == str(query.id)
    assert seen["sink"]["description"] == f"oncelog[{pipeline.target}] of {pipeline.transactional_id}"
    assert seen["sink"]["numOutputRows"] == sink.last_batch.records
    other = progress(query.lastProgress, pipeline.sink(topic=None))
    assert other["sink"] == {
        "description": f"oncelog[the column topic] of {pipeline.transactional_id}",
        "numOutputRows": -1,
        "metrics": {},
    }


def report(batch_id: int, records: int = 0) -> BatchReport:
    return BatchReport(
        batch_id=batch_id,
        is_skipped=False,
        records=records,
        size_bytes=0,
        partitions=0,
        mode=None,
        attempts=1,
        transaction_ms=0,
        total_ms=0,
        identity=ProducerIdentity(1, 1),
    )


def test_the_last_hundred_reports_are_kept():
    reports = RecentReports()
    for batch_id in range(REPORTS_MAX + 1):
        reports.add(report(batch_id))
    reports.add(report(1, records=7))
    reports.add(report(REPORTS_MAX + 1))
    assert [batch_id for batch_id in range(REPORTS_MAX + 2) if reports.of(batch_id) is None] == [0, 2]
    assert reports.of(1) == report(1, records=7)
