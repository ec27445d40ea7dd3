"""Running a user's function over topics: as a streaming query with a checkpoint, or without one."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.java import announce_java
from oncelog.cli.run_reports import Reports
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
from oncelog.spark.sink.unwritable import RowError
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
"""What may end a pipeline, and is said in a sentence."""

AWAIT_SECONDS = 1
SENTENCE_CHARACTERS_MAX = 500

OWN_ERROR = re.compile(r"\boncelog\.[\w.]+\.(\w+): ([^\n]+)")
"""An error of ours in the text of one of Spark's."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What to run. Without a checkpoint, the offsets committed with the output say where to go on."""

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
    offsets_max: int | None
    once: bool
    write_to_input: bool


def load_function(spec: str) -> tuple[Transform, str]:
    """Read FILE.py:FUNCTION; return the function and its name. Raises CommandError."""
    file, separator, name = spec.rpartition(":")
    if not separator or not name:
        raise CommandError(f"{spec} is not FILE.py:FUNCTION", ExitStatus.USAGE)
    path = Path(file)
    if not path.is_file():
        raise CommandError(f"there is no file {file}", ExitStatus.USAGE)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        found = run_path(str(path)).get(name)
    except Exception as error:
        raise CommandError(f"{file} does not load: {type(error).__name__}: {error}", ExitStatus.USAGE) from error
    if not callable(found):
        raise CommandError(f"{file} has no function {name}", ExitStatus.USAGE)
    return found, name


def check_topics(transform: Transform, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raises CommandError where a function does not fit the topics that it is to read, or a topic is named twice."""
    try:
        inputs_of(transform, sources)
        output_topic(targets)
    except FunctionError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def start_spark(name: str, master: str) -> SparkSession:
    """Start Spark, and say with which Java. Raises CommandError."""
    spark = build_session(app_name=name, master=master, java=announce_java())
    spark.sparkContext.setLogLevel("OFF")
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
    except EXPECTED as error:
        raise pipeline_failure(error) from error


def _run_without_checkpoint(spark: SparkSession, pipeline: Pipeline, reports: Reports, stop: threading.Event) -> None:
    run_stateless(
        spark,
        pipeline.transform,
        from_topic=pipeline.sources,
        to_topic=pipeline.targets,
        bootstrap_servers=pipeline.bootstrap_servers,
        transactional_id=pipeline.transactional_id,
        max_offsets_per_batch=pipeline.offsets_max,
        once=pipeline.once,
        interval_ms=pipeline.interval_ms,
        stop=stop,
        on_batch=reports.batch,
        kafka_options=pipeline.kafka_options,
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

    def write(rows: DataFrame, batch_id: int) -> None:
        sink(rows, batch_id)
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
    while not query.awaitTermination(AWAIT_SECONDS):
        if stop.is_set():
            query.stop()
            return
        progress = query.lastProgress
        if progress is not None:
            reports.lag(sum(lag(progress).values()))


def _stream(spark: SparkSession, pipeline: Pipeline, topics: Sequence[str]) -> DataFrame:
    reader = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", pipeline.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .options(**pipeline.kafka_options)
    )
    if pipeline.offsets_max is not None:
        reader = reader.option("maxOffsetsPerTrigger", pipeline.offsets_max)
    return reader.load()


def pipeline_failure(error: Exception) -> CommandError:
    """A sentence out of what may be a page of Java and Python."""
    text = str(error)
    own = OWN_ERROR.findall(text)
    if isinstance(error, OutcomeUnknown) or any(name == OutcomeUnknown.__name__ for name, _ in own):
        status = ExitStatus.UNKNOWN
    else:
        status = ExitStatus.FAILED
    sentence = f"{own[-1][0]}: {own[-1][1]}" if own else text.strip().partition("\n")[0] or type(error).__name__
    return CommandError(f"the pipeline stopped: {sentence[:SENTENCE_CHARACTERS_MAX]}", status)
