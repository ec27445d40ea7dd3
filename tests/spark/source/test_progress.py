"""How far behind a query is, for whoever listens to its progress."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql.streaming import StreamingQueryListener

from harness.names import unique
from oncelog.client.values import TopicPartition
from oncelog.spark import lag, source_metrics
from oncelog.spark.source.progress import source_description
from tests.spark import topics

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
