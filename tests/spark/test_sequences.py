"""The number of a micro-batch that never goes back, for what a user writes beside the topic."""

from __future__ import annotations

import shutil

import pytest

from oncelog.spark import committed_offsets
from tests.spark import topics
from tests.spark.pipelines import COUNT, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MORE = 500


@pytest.fixture
def pipeline(spark, log, tmp_path):
    made = Pipeline(spark, log, tmp_path / "checkpoint")
    yield made
    for sink in made.sinks:
        sink.close()


class Beside:
    """Writes what the topic gets to files, too, under the number of the micro-batch."""

    def __init__(self, pipeline, directory):
        self._pipeline = pipeline
        self._directory = directory
        self.sink = pipeline.sink()
        self.numbers = []
        self.fails_after = None

    def __call__(self, rows, batch_id):
        number = self.sink.sequence(batch_id)
        self.numbers.append((batch_id, number))
        rows.write.mode("overwrite").parquet(f"{self._directory}/b={number}")
        if self.fails_after == "files":
            raise RuntimeError("between the two")
        self.sink(rows, batch_id)
        assert self.sink.last_batch.sequence == number
        assert self.sink.sequence(batch_id) == number
        if self.fails_after == "topic":
            raise RuntimeError("after the two")

    def values(self):
        rows = self._pipeline.spark.read.parquet(str(self._directory)).select("value").collect()
        return sorted(row.value for row in rows)


def run(pipeline, writing, checkpoint, **options):
    rows = pipeline.rows(**options).selectExpr("key", "upper(cast(value as string)) value")
    assert pipeline.start(writing, rows=rows, checkpoint=checkpoint).awaitTermination(180)


def test_files_keep_all_rows_though_the_checkpoint_is_lost(pipeline, tmp_path):
    writing = Beside(pipeline, tmp_path / "files")
    run(pipeline, writing, pipeline.checkpoint)
    before = len(writing.numbers)
    assert writing.numbers == [(number, number) for number in range(before)]
    shutil.rmtree(pipeline.checkpoint)
    topics.produce(pipeline.log.bootstrap_servers, pipeline.source, topics.keyed_records(MORE, start=COUNT))
    start = committed_offsets(pipeline.log.bootstrap_servers, pipeline.transactional_id)
    run(pipeline, writing, pipeline.checkpoint, startingOffsets=start)
    assert writing.numbers[before:] == [(0, before), *((1, before + 1) for _ in writing.numbers[before + 1 :])]
    pipeline.assert_copied_once(COUNT + MORE)
    assert writing.values() == topics.values(pipeline.output())


@pytest.mark.parametrize("fails_after", ["files", "topic"])
def test_micro_batch_that_is_repeated_has_its_number_again(pipeline, tmp_path, fails_after):
    writing = Beside(pipeline, tmp_path / "files")
    writing.fails_after = fails_after
    with pytest.raises(Exception, match="the two"):
        run(pipeline, writing, pipeline.checkpoint)
    again = Beside(pipeline, tmp_path / "files")
    run(pipeline, again, pipeline.checkpoint)
    assert writing.numbers == [(0, 0)]
    assert again.numbers == [(number, number) for number in range(len(again.numbers))]
    assert again.sink.report(0).is_skipped == (fails_after == "topic")
    assert again.sink.report(0).sequence == 0
    pipeline.assert_copied_once()
    assert again.values() == topics.values(pipeline.output())


def test_checkpoint_that_does_not_fit_is_refused_before_a_number_is_given(pipeline, tmp_path):
    writing = Beside(pipeline, tmp_path / "files")
    run(pipeline, writing, pipeline.checkpoint)
    shutil.rmtree(pipeline.checkpoint)
    given = len(writing.numbers)
    with pytest.raises(Exception, match="FenceError: another query"):
        run(pipeline, writing, pipeline.checkpoint)
    assert len(writing.numbers) == given
    assert writing.values() == topics.values(pipeline.output())
