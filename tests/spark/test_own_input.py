"""A query that would read what it writes is refused, unless its user has said that it may."""

from __future__ import annotations

import pytest

from harness.names import unique
from oncelog.client import Client, TopicPartition
from oncelog.spark import run_stateless
from oncelog.spark.query import QueryError
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Pipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


def records_of(pipeline, topic):
    return sum(map(len, topics.read(pipeline.log.bootstrap_servers, topic).values()))


def test_frame_of_the_source_that_nobody_selected_from_is_not_written_to_its_own_topic(pipeline):
    sink = pipeline.sink(topic=None)
    query = pipeline.start(sink, rows=pipeline.rows(), trigger={"processingTime": "0 seconds"})
    with pytest.raises(
        Exception,
        match=rf"QueryError: topic '{pipeline.source}' is read and written by this query, .* name the output with topic=...",
    ):
        query.awaitTermination(120)
    assert records_of(pipeline, pipeline.source) == COUNT


@pytest.mark.parametrize("named", ["topic", "dead_letter_topic"])
def test_named_output_that_is_read_is_refused_before_anybody_is_fenced(pipeline, named):
    settings = {named: pipeline.source, "unwritable": "fail" if named == "topic" else "dead-letter"}
    with pytest.raises(Exception, match=rf"QueryError: topic '{pipeline.source}' is read and written"):
        pipeline.run(**settings)
    with Client(pipeline.log.bootstrap_servers) as client:
        assert pipeline.transactional_id not in {one.transactional_id for one in client.list_transactions()}


def test_output_that_the_pattern_of_the_input_matches_is_refused(pipeline):
    target = topics.create(pipeline.log.bootstrap_servers, f"{pipeline.source}-out", 1)
    rows = pipeline.rows(subscribe=None, subscribePattern=f"^{pipeline.source}.*").select("key", "value")
    with pytest.raises(Exception, match=f"QueryError: topic '{target}' is read and written"):
        pipeline.run(rows=rows, topic=target)
    assert records_of(pipeline, target) == 0


def test_user_who_says_so_writes_to_the_input(pipeline):
    """A topic of what is to be tried again. The query ends where its input ended when it began."""
    pipeline.run(topic=pipeline.source, write_to_input=True)
    assert records_of(pipeline, pipeline.source) == 2 * COUNT
    read = topics.values(topics.read(pipeline.log.bootstrap_servers, pipeline.source))
    values = [value for _, value in topics.keyed_records(COUNT)]
    assert read == sorted([*values, *map(str.upper, values)])


def test_format_refuses_it_too(pipeline):
    options = {
        "kafka.bootstrap.servers": pipeline.log.bootstrap_servers,
        "checkpointLocation": str(pipeline.checkpoint),
    }
    query = pipeline.rows().writeStream.format("oncelog").options(**options).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=rf"QueryError: topic '{pipeline.source}' is read and written"):
        query.awaitTermination(120)
    assert records_of(pipeline, pipeline.source) == COUNT


@pytest.mark.parametrize("to_topic", [None, "its own"])
def test_pipeline_without_a_checkpoint_is_refused(pipeline, to_topic):
    settings = {"bootstrap_servers": pipeline.log.bootstrap_servers, "transactional_id": unique("own"), "once": True}
    named = None if to_topic is None else pipeline.source
    with pytest.raises(QueryError, match=f"topic '{pipeline.source}' is read and written"):
        run_stateless(pipeline.spark, lambda rows: rows, from_topic=pipeline.source, to_topic=named, **settings)
    assert records_of(pipeline, pipeline.source) == COUNT


def test_topic_of_the_same_name_on_another_cluster_is_another_topic(spark, kafka, oncelog_broker, tmp_path):
    pipeline = Pipeline(spark, oncelog_broker, tmp_path / "checkpoint", source_log=kafka)
    topics.create(oncelog_broker.bootstrap_servers, pipeline.source, 1)
    pipeline.run(topic=pipeline.source).close()
    assert records_of(pipeline, pipeline.source) == COUNT
    with Client(kafka.bootstrap_servers) as client:
        ends = client.end_offsets([TopicPartition(pipeline.source, number) for number in range(4)])
    assert sum(ends.values()) == COUNT
