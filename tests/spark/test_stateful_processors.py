"""transformWithState, which talks to Spark's state over protobuf, between the source and the sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from oncelog.spark.query import STATE_FORMAT
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.drawn(6)]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEYS = 17
ADDED = 10


class Totals(StatefulProcessor):
    """How many records a key has had."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def _add(self, count: int) -> str:
        total = (self._count.get()[0] if self._count.exists() else 0) + count
        self._count.update((total,))
        return str(total)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        yield Row(key=key[0], value=self._add(sum(1 for _ in rows)))

    def close(self) -> None:
        pass


class PandasTotals(Totals):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
        yield pd.DataFrame({"key": [key[0]], "value": [self._add(sum(len(some) for some in rows))]})


@pytest.fixture
def pipeline(spark, oncelog_broker, tmp_path):
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKS_DB)
    made = Pipeline(spark, oncelog_broker, tmp_path / "checkpoint")
    yield made
    spark.conf.set(PROVIDER, before)
    for sink in made.sinks:
        sink.close()


def totals(pipeline: Pipeline, kind: str) -> Any:
    groups = pipeline.rows(maxOffsetsPerTrigger="1000").selectExpr("cast(key as string) key").groupBy("key")
    if kind == "rows":
        return groups.transformWithState(Totals(), "key string, value string", "update", "none")
    return groups.transformWithStateInPandas(PandasTotals(), "key string, value string", "update", "none")


@pytest.mark.parametrize("kind", ["rows", "pandas"])
def test_state_of_a_processor_and_its_output_agree_after_a_crash(pipeline, kind):
    pipeline.run(rows=totals(pipeline, kind), output_mode="update")
    before = pipeline.output()
    pipeline.forget_last_commit()
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(ADDED, start=COUNT))
    sink = pipeline.run(rows=totals(pipeline, kind), output_mode="update")
    assert sink.metrics.batches_skipped == 1
    assert sink.metrics.records == ADDED
    expected = {key: 0 for key, _ in topics.keyed_records(KEYS)}
    for key, _ in topics.keyed_records(COUNT + ADDED):
        expected[key] += 1
    found = topics.by_key(pipeline.output())
    assert {key: int(values[-1]) for key, values in found.items()} == expected
    assert all(values == sorted(set(values), key=int) for values in found.values())
    assert len(topics.values(pipeline.output())) == len(topics.values(before)) + ADDED


def test_state_whose_files_do_not_tell_its_version_is_computed_once_more_and_the_query_goes_on(pipeline, spark):
    """A committed micro-batch is not written again, and the next micro-batch finds the state before it."""
    spark.conf.set(STATE_FORMAT, "2")
    try:
        for added in (0, 0, ADDED):
            topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(added, start=COUNT))
            rows = pipeline.rows().groupBy("key").count().selectExpr("key", "cast(count as string) value")
            sink = pipeline.run(rows=rows, output_mode="update")
            if not added:
                before = pipeline.output()
                pipeline.forget_last_commit()
        assert sink.metrics.batches_skipped == 1
        assert sink.metrics.records == ADDED
    finally:
        spark.conf.unset(STATE_FORMAT)
    expected = {key: 0 for key, _ in topics.keyed_records(KEYS)}
    for key, _ in topics.keyed_records(COUNT + ADDED):
        expected[key] += 1
    assert {key: int(values[-1]) for key, values in topics.by_key(pipeline.output()).items()} == expected
    assert len(topics.values(pipeline.output())) == len(topics.values(before)) + ADDED
