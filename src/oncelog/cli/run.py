"""`oncelog run`: a function from DataFrame to DataFrame as an exactly-once pipeline from topic to topic."""

from __future__ import annotations

import json
import re
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oncelog.cli.broker_process import BrokerProcess, ProcessError
from oncelog.cli.brokers import connect, existing_topics
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_spark_is_installed
from oncelog.cli.options import Json
from oncelog.client import NewTopic
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.spark import BatchReport

EMBEDDED_ADDRESS = "127.0.0.1:9092"
DEFAULT_DATA_DIRECTORY = Path("oncelog-data")
INTERVAL = re.compile(r"(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)")
UNIT_MS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
}


class OutputMode(StrEnum):
    """Which rows of a result that changes are written, as Spark names it."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


def command(
    function: Annotated[str, typer.Argument(metavar="FILE.py:FUNCTION", help="It takes a DataFrame, and returns one.")],
    source: Annotated[str, typer.Option("--from", metavar="TOPIC", help="The topic to read.")],
    target: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to write; made if it is not there.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="DIR", help="Where Spark keeps offsets and state; for stateful functions."
        ),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id", help="Who writes: one per pipeline, always the same. The output topic's name."
        ),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger", metavar="TIME", help='Least time between micro-batches: "10 seconds". As soon as can be.'
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is there now, then end.")] = False,
    output_mode: Annotated[
        OutputMode, typer.Option("--output-mode", help="For stateful functions, with --checkpoint.")
    ] = OutputMode.APPEND,
    max_offsets: Annotated[
        int | None, typer.Option("--max-offsets", min=1, help="About how many offsets a micro-batch reads at most.")
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs.")] = "local[*]",
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT,…",
            help=f"Where the cluster is found. Without it a log is started on {EMBEDDED_ADDRESS} for this run.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help=f"Where that log is kept; {DEFAULT_DATA_DIRECTORY} if not given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run FUNCTION over a topic into another, exactly once, until SIGTERM or Ctrl-C: both are a clean stop.

    Each micro-batch is one transaction, with the input's offsets inside. FUNCTION gets the columns of Spark's Kafka
    source (key, value, topic, partition, offset, timestamp) and returns value and, if it likes, key, headers, partition.
    """
    check_spark_is_installed("run")
    if bootstrap_server is not None and data_dir is not None:
        raise CommandError("--data-dir is for the log that is started without --bootstrap-server", ExitStatus.USAGE)
    if output_mode is not OutputMode.APPEND and checkpoint is None:
        raise CommandError("--output-mode needs a --checkpoint", ExitStatus.USAGE)
    interval_ms = 0.0 if trigger is None else parse_interval_ms(trigger)
    from oncelog.cli.pipeline import Pipeline, load_function, run_pipeline, start_spark

    transform, name = load_function(function)
    with ExitStack() as stack:
        address = bootstrap_server or _embedded_log(stack, data_dir or DEFAULT_DATA_DIRECTORY)
        make_topics(address, source, target, may_make_source=bootstrap_server is None)
        spark = start_spark(name, master)
        stack.callback(spark.stop)
        pipeline = Pipeline(
            transform=transform,
            name=name,
            source=source,
            target=target,
            bootstrap_servers=address,
            transactional_id=transactional_id or target,
            checkpoint=checkpoint,
            output_mode=output_mode.value,
            trigger=trigger,
            interval_ms=interval_ms,
            offsets_max=max_offsets,
            once=once,
        )
        run_pipeline(spark, pipeline, json_report if as_json else plain_report, stop_on_signals())


def parse_interval_ms(text: str) -> float:
    """Read "10 seconds", "500 ms", "1m". Raises typer.BadParameter."""
    matched = INTERVAL.fullmatch(text.strip().lower())
    if matched is None:
        raise typer.BadParameter(f"{text!r} is not a number and ms, seconds, minutes or hours", param_hint="--trigger")
    unit = matched[2] if matched[2] in UNIT_MS else matched[2].removesuffix("s")
    return float(matched[1]) * UNIT_MS[unit]


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and Ctrl-C set."""
    stop = threading.Event()

    def ask_to_stop(number: int, frame: Any) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    return stop


def make_topics(bootstrap_server: str, source: str, target: str, *, may_make_source: bool) -> None:
    """Make the output topic, with as many partitions as the input. Raises CommandError if the input is missing."""
    with connect(bootstrap_server) as client:
        described = client.metadata([source, target])
        is_missing = {name: topic.error is ErrorCode.unknown_topic_or_partition for name, topic in described.items()}
        if is_missing[source] and may_make_source:
            client.create_topics([NewTopic(source)])
        partitions = len(existing_topics(client, [source])[0].partitions)
        if is_missing[target]:
            client.create_topics([NewTopic(target, partitions)])


def _embedded_log(stack: ExitStack, data_directory: Path) -> str:
    """Start a log for as long as this command runs; return its address. Raises CommandError."""
    errors = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-"))) / "broker.txt"
    broker = BrokerProcess(EMBEDDED_ADDRESS, data_directory, errors)
    stack.callback(broker.stop)
    try:
        broker.start()
    except ProcessError as error:
        raise CommandError(f"{error}; --bootstrap-server uses a log that runs already", ExitStatus.FAILED) from error
    print(f"log on {EMBEDDED_ADDRESS}, data in {data_directory}", file=sys.stderr)
    return EMBEDDED_ADDRESS


def plain_report(report: BatchReport) -> None:
    if report.is_skipped:
        line = f"micro-batch {report.batch_id}: committed before the restart, skipped"
    else:
        line = (
            f"micro-batch {report.batch_id}: {report.records} records to {report.partitions} partitions "
            f"in {report.total_ms:.0f} ms, transaction {report.transaction_ms:.0f} ms"
        )
    if report.attempts > 1:
        line += f", {report.attempts} attempts"
    print(line, flush=True)


def json_report(report: BatchReport) -> None:
    fields = {
        "batch_id": report.batch_id,
        "skipped": report.is_skipped,
        "records": report.records,
        "size_bytes": report.size_bytes,
        "partitions": report.partitions,
        "mode": None if report.mode is None else report.mode.value,
        "attempts": report.attempts,
        "transaction_ms": round(report.transaction_ms, 1),
        "total_ms": round(report.total_ms, 1),
        "producer_id": report.identity.producer_id,
        "epoch": report.identity.epoch,
    }
    print(json.dumps(fields), flush=True)
