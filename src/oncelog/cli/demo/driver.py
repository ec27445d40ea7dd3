"""The driver program that the demo starts, kills and starts again: both pipelines, one after the other.

The functions are those of the user files under `examples/`. Only the sink differs: `exactly_once`, or what many
pipelines do today, a producer in each task and the offsets committed after the batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

from pyspark.sql import DataFrame, SparkSession

from oncelog.cli.demo.plain_writes import at_least_once
from oncelog.cli.demo.plan import INPUT_TOPIC, PIPELINES, Guarantee, Pipeline
from oncelog.spark import build_session, exactly_once

Sink = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Task:
    """What one run of the driver has to do."""

    bootstrap_servers: str
    guarantee: Guarantee
    examples: Path
    checkpoints: Path
    offsets_per_batch: int


def main() -> None:
    """Run both pipelines over all the flights there are, from where the checkpoints say."""
    options = argparse.ArgumentParser()
    options.add_argument("--bootstrap-server", required=True)
    options.add_argument("--guarantee", required=True, type=Guarantee, choices=list(Guarantee))
    options.add_argument("--examples", required=True, type=Path)
    options.add_argument("--checkpoints", required=True, type=Path)
    options.add_argument("--offsets-per-batch", required=True, type=int)
    chosen = options.parse_args()
    task = Task(
        chosen.bootstrap_server, chosen.guarantee, chosen.examples, chosen.checkpoints, chosen.offsets_per_batch
    )
    spark = build_session(app_name="oncelog demo", master="local[2]", settings=QUICK)
    for pipeline in PIPELINES:
        run_pipeline(spark, task, pipeline)


QUICK = {
    # A driver that lives for seconds: do not compile for long what is not run for long.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def run_pipeline(spark: SparkSession, task: Task, pipeline: Pipeline) -> None:
    function = run_path(str(task.examples / pipeline.file))[pipeline.function]
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


def sink(task: Task, topic: str, checkpoint: Path) -> Sink:
    if task.guarantee is Guarantee.EXACTLY_ONCE:
        return exactly_once(topic=topic, transactional_id=topic, bootstrap_servers=task.bootstrap_servers)
    return at_least_once(topic, task.bootstrap_servers, checkpoint)


if __name__ == "__main__":
    main()
