"""Queries that are started again before their first micro-batch was done, while the topics change."""

from __future__ import annotations

import json

import pytest

from harness.known_topics import wait_until_known
from harness.names import unique
from oncelog.client import Client, TopicPartition
from tests.spark import topics
from tests.spark.pipelines import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FIRST = [("k", "a"), ("k", "b"), ("k", "c")]
LATER = [("k", "d"), ("k", "e")]


class Unwilling:
    """Not able to write."""

    def __call__(self, rows, batch_id):
        rows.collect()
        raise RuntimeError("no")


class Restarted(Pipeline):
    def __init__(self, spark, log, checkpoint):
        self.spark, self.log, self.checkpoint = spark, log, checkpoint
        self.source_log = log
        self.source = topics.create(log.bootstrap_servers, unique("in"), 1)
        self.target = topics.create(log.bootstrap_servers, unique("out"), 1)
        self.transactional_id = unique("copy")
        self.sinks = []
        topics.produce(log.bootstrap_servers, self.source, FIRST)

    def refuse(self, **options):
        """A first micro-batch that is planned, and fails."""
        query = self.start(Unwilling(), rows=self.rows(**options).select("key", "value"))
        with pytest.raises(Exception, match="no"):
            query.awaitTermination(180)

    def assert_output(self, records):
        assert topics.values(self.output()) == sorted(value for _, value in records)


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Restarted(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


@pytest.mark.parametrize("start", ["earliest", "offsets"])
def test_a_partition_that_was_added_since_is_read_from_its_beginning(pipeline, start):
    told = {"startingOffsets": json.dumps({pipeline.source: {"0": 1}}) if start == "offsets" else start}
    pipeline.refuse(**told)
    with Client(pipeline.log.bootstrap_servers) as client:
        client.create_partitions({pipeline.source: 2})
    wait_until_known(pipeline.log.bootstrap_servers, pipeline.source, 2)
    pipeline.run(rows=pipeline.rows(**told).select("key", "value"))
    pipeline.assert_output(FIRST[1:] if start == "offsets" else FIRST)
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, LATER)
    pipeline.run(rows=pipeline.rows(**told).select("key", "value"))
    pipeline.assert_output([*(FIRST[1:] if start == "offsets" else FIRST), *LATER])


def test_a_topic_that_the_pattern_matches_since_is_read_from_its_beginning(pipeline):
    def rows():
        return pipeline.rows(subscribe=None, subscribePattern=f"^{pipeline.source}.*").select("key", "value")

    query = pipeline.start(Unwilling(), rows=rows())
    with pytest.raises(Exception, match="no"):
        query.awaitTermination(180)
    topics.create(pipeline.log.bootstrap_servers, f"{pipeline.source}-more", 1)
    topics.produce(pipeline.log.bootstrap_servers, f"{pipeline.source}-more", LATER)
    pipeline.run(rows=rows())
    pipeline.assert_output([*FIRST, *LATER])


def test_records_that_were_deleted_since_are_data_loss(pipeline):
    pipeline.refuse()
    with Client(pipeline.log.bootstrap_servers) as client:
        client.delete_records({TopicPartition(pipeline.source, 0): 2})
    query = pipeline.start(rows=pipeline.rows().select("key", "value"))
    with pytest.raises(Exception, match=f"DataLossError: {pipeline.source}-0 no longer has offset 0"):
        query.awaitTermination(180)
    pipeline.run(rows=pipeline.rows(failOnDataLoss="false").select("key", "value"))
    pipeline.assert_output(FIRST[2:])


def test_a_micro_batch_that_is_committed_and_not_noted_is_skipped_though_its_partitions_are_not_all_any_more(pipeline):
    pipeline.run(rows=pipeline.rows().select("key", "value"))
    pipeline.forget_last_commit()
    with Client(pipeline.log.bootstrap_servers) as client:
        client.create_partitions({pipeline.source: 2})
    sink = pipeline.run(rows=pipeline.rows().select("key", "value"))
    assert sink.metrics.batches_skipped == 1
    pipeline.assert_output(FIRST)
