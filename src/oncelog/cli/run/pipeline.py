"""Runs a user's function over topics: as a streaming query with a checkpoint, or without one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import announce_java
from oncelog.cli.run.options import stateless_arguments
from oncelog.cli.run.reports import Reports
from oncelog.client import ClientError, OutcomeUnknown
from oncelog.spark import (
    CheckpointError,
    DataLossError,
    FenceError,
    FunctionError,
    NeedsCheckpoint,
    OptionError,
    QueryError,
    build_session,
    exactly_once,
    lag,
    run_stateless,
)
from oncelog.spark.causes import cause_of
from oncelog.spark.sink.writable import RowError
from oncelog.spark.user_function import Transform, inputs_of, output_of, output_topic

EXPECTED = (
    ClientError,
    CheckpointError,
    DataLossError,
    FenceError,
    OptionError,
    QueryError,
    RowError,
    PySparkException,
    Py4JError,
)
"""The errors of a pipeline that become a sentence."""

AWAIT_SECONDS = 1
SENTENCE_CHARACTERS_MAX = 500

QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers to which PySpark writes an error with all frames of Java before it raises it."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline to run. Without a checkpoint it goes on from the offsets committed with the output."""

    transform: Transform
    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    bootstrap_servers: str
    kafka_options: Mapping[str, str]
    transactional_id: str
    checkpoint: Path | None
    output_mode: str
    trigger: str | None
    interval_ms: float
    source_options: Mapping[str, str]
    once: bool
    write_to_input: bool


def start_spark(name: str, master: str) -> SparkSession:
    """Start Spark, and print which Java it uses and how long it took. Raises CommandError."""
    java = announce_java()
    started_s = time.monotonic()
    spark = build_session(app_name=name, master=master, java=java)
    print(f"Spark started in {time.monotonic() - started_s:.1f} s", file=sys.stderr)
    spark.sparkContext.setLogLevel("OFF")
    for logger in QUERY_LOGGERS:
        PySparkLogger.getLogger(logger).disabled = True
    return spark


def run_pipeline(spark: SparkSession, pipeline: Pipeline, reports: Reports, stop: threading.Event) -> None:
    """Run until `stop` is set; with `once`, until everything that was there is done. Raises CommandError."""
    try:
        if pipeline.checkpoint is None:
            _run_without_checkpoint(spark, pipeline, reports, stop)
        else:
            _run_query(spark, pipeline, pipeline.checkpoint, reports, stop)
    except NeedsCheckpoint as error:
        raise CommandError(f"{error.reason}: give it a --checkpoint", ExitStatus.USAGE) from error
    except FunctionError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error
    except Exception as error:
        if not isinstance(error, EXPECTED) and cause_of(error).place is None:
            raise
        raise pipeline_failure(error) from error


def _run_without_checkpoint(spark: SparkSession, pipeline: Pipeline, reports: Reports, stop: threading.Event) -> None:
    arguments = stateless_arguments(pipeline.source_options)
    run_stateless(
        spark,
        pipeline.transform,
        from_topic=pipeline.sources,
        to_topic=pipeline.targets,
        bootstrap_servers=pipeline.bootstrap_servers,
        transactional_id=pipeline.transactional_id,
        starting_offsets=arguments.starting_offsets,
        max_offsets_per_batch=arguments.offsets_max,
        include_headers=arguments.include_headers,
        once=pipeline.once,
        interval_ms=pipeline.interval_ms,
        stop=stop,
        on_batch=reports.batch,
        kafka_options=pipeline.kafka_options,
        source_options=arguments.others,
        write_to_input=pipeline.write_to_input,
    )


def _run_query(
    spark: SparkSession, pipeline: Pipeline, checkpoint: Path, reports: Reports, stop: threading.Event
) -> None:
    sink = exactly_once(
        topic=output_topic(pipeline.targets),
        transactional_id=pipeline.transactional_id,
        bootstrap_servers=pipeline.bootstrap_servers,
        options=pipeline.kafka_options,
        write_to_input=pipeline.write_to_input,
    )

    failures: list[Exception] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        try:
            sink(rows, batch_id)
        except Exception as error:
            # Java hands on only the text of it.
            failures.append(error)
            raise
        assert sink.last_batch is not None, "a batch that was written has a report"
        reports.batch(sink.last_batch)

    inputs = inputs_of(pipeline.transform, pipeline.sources)
    result = pipeline.transform(*(_stream(spark, pipeline, topics) for topics in inputs))
    writer = (
        output_of(pipeline.transform, result, pipeline.targets)
        .writeStream.queryName(pipeline.name)
        .foreachBatch(write)
        .outputMode(pipeline.output_mode)
        .option("checkpointLocation", str(checkpoint.resolve()))
    )
    if pipeline.once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=pipeline.trigger)
    query = writer.start()
    try:
        _await(query, reports, stop)
    except StreamingQueryException as error:
        raise (failures or [error])[-1] from None


def _await(query: StreamingQuery, reports: Reports, stop: threading.Event) -> None:
    while not query.awaitTermination(AWAIT_SECONDS):
        if stop.is_set():
            query.stop()
            return
        progress = query.lastProgress
        if progress is not None:
            reports.lag(sum(lag(progress).values()))


def _stream(spark: SparkSession, pipeline: Pipeline, topics: Sequence[str]) -> DataFrame:
    return (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", pipeline.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .options(**pipeline.source_options, **pipeline.kafka_options)
        .load()
    )


def pipeline_failure(error: Exception) -> CommandError:
    """A sentence out of what may be a page of Java and Python."""
    cause = cause_of(error)
    is_unknown = isinstance(error, OutcomeUnknown) or cause.kind == OutcomeUnknown.__name__
    status = ExitStatus.UNKNOWN if is_unknown else ExitStatus.FAILED
    shortened = replace(cause, message=cause.message[:SENTENCE_CHARACTERS_MAX])
    return CommandError(f"the pipeline stopped: {shortened}", status)
