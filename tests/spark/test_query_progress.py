"""What a user watches: Spark's progress with what the sink knows, in a listener and in the last progress of a query."""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from oncelog.client import ProducerIdentity
from oncelog.spark import BatchReport, progress
from oncelog.spark.metrics import REPORTS_MAX, RecentReports
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline


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
