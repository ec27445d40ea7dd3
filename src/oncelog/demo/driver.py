"""The driver program that the demo starts, kills and starts again: both pipelines, one after the other.

It starts as a standby: it reads a few flights through a pipeline, writes them nowhere, and waits for lines that say what
to do. So there is one that can take over at once when another has been killed.

The functions are those of the user files under `examples/`. Only the sink differs: `exactly_once`, or what many
pipelines do today, a producer in each task and the offsets committed after the batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from runpy import run_path

from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession

from oncelog.demo.plain_writes import at_least_once
from oncelog.demo.plan import INPUT_TOPIC, PARTITIONS, PIPELINES, DemoPipeline, DemoRun, Guarantee
from oncelog.spark import build_session, exactly_once
from oncelog.spark.session.spark_home import QUICK

Sink = Callable[[DataFrame, int], None]
Function = Callable[[DataFrame], DataFrame]


REHEARSED_OFFSETS = 50
"""Offsets of each partition; the topic has as many before the first driver starts."""


def main() -> None:
    """Get ready, then do each task: run both pipelines over all the flights there are, from where the checkpoints say."""
    options = argparse.ArgumentParser()
    options.add_argument("--bootstrap-server", required=True, help="Where to read the flights of the rehearsal.")
    options.add_argument("--examples", required=True, type=Path)
    chosen = options.parse_args()
    settings = {"spark.driver.extraJavaOptions": f'{QUICK} "-Djava.io.tmpdir={tempfile.gettempdir()}"'}
    spark = build_session(app_name="oncelog demo", master="local[2]", settings=settings)
    functions = [load_function(chosen.examples, pipeline) for pipeline in PIPELINES]
    rehearse(spark, functions[0], chosen.bootstrap_server)
    for line in sys.stdin:
        task = DemoRun.from_line(line)
        for pipeline, function in zip(PIPELINES, functions, strict=True):
            run_pipeline(spark, task, pipeline, function)
        task.finished.touch()


def load_function(examples: Path, pipeline: DemoPipeline) -> Function:
    function: Function = run_path(str(examples / pipeline.file))[pipeline.function]
    return function


def rehearse(spark: SparkSession, function: Function, bootstrap_servers: str) -> None:
    ends = {INPUT_TOPIC: {str(number): REHEARSED_OFFSETS for number in range(PARTITIONS)}}
    flights = (
        spark.read.format("oncelog")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", INPUT_TOPIC)
        .option("endingOffsets", json.dumps(ends))
        .load()
    )
    # The source's workers and the sink's are forked from two processes, which Spark starts when each is needed first.
    rows = function(flights)
    rows.mapInArrow(as_they_are, rows.schema).write.format("noop").mode("overwrite").save()


def as_they_are(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    return batches


def run_pipeline(spark: SparkSession, task: DemoRun, pipeline: DemoPipeline, function: Function) -> None:
    flights = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", task.bootstrap_servers)
        .option("subscribe", INPUT_TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", task.offsets_per_batch)
        .load()
    )
    topic = pipeline.topic(task.guarantee)
    checkpoint = task.checkpoints / topic
    query = (
        function(flights)
        .writeStream.foreachBatch(sink(task, topic, checkpoint))
        .outputMode(pipeline.output_mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def sink(task: DemoRun, topic: str, checkpoint: Path) -> Sink:
    if task.guarantee is Guarantee.EXACTLY_ONCE:
        return exactly_once(topic=topic, transactional_id=topic, bootstrap_servers=task.bootstrap_servers)
    return at_least_once(topic, task.bootstrap_servers, checkpoint)


if __name__ == "__main__":
    main()
