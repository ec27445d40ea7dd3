"""`oncelog run`: a function from DataFrames to DataFrames as an exactly-once pipeline from topics to topics."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oncelog.cli.brokers import Reach, connect, existing_topics, reach
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.needs import check_spark
from oncelog.cli.options import Config, Json, filled, filled_path
from oncelog.cli.run.reports import ProgressLine, Reports, json_reports, plain_reports
from oncelog.cli.tables import console
from oncelog.client import Client, NewTopic
from oncelog.server.member_process import MemberError, MemberProcess
from oncelog.wire import ErrorCode

EMBEDDED_ADDRESS = "127.0.0.1:9092"
EMBEDDED_START_SECONDS = 600.0
"""A log with much to recover takes its time."""
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
    """Spark's output modes."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


def command(
    function: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:FUNCTION",
            help="It gets a DataFrame for each --from, in order. With one required parameter it gets one DataFrame of all of them.",
        ),
    ],
    sources: Annotated[list[str], typer.Option("--from", metavar="TOPIC", help="A topic to read; may be repeated.")],
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="A topic to write, created if it is not there. With several, FUNCTION returns a tuple of DataFrames in this "
            "order, a dictionary of DataFrames by topic, or one DataFrame with a column topic. Without --to it returns such a "
            "dictionary or column, for topics that exist.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            parser=filled_path,
            metavar="DIR",
            help="Where Spark keeps offsets and state; for stateful functions.",
        ),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            parser=filled,
            metavar="ID",
            help="The producer of this pipeline: its own id, always the same. With one --to its name is the default.",
        ),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger",
            metavar="TIME",
            help='The shortest time between micro-batches, such as "10 seconds"; none if not given.',
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process the records that are there now, then end.")] = False,
    output_mode: Annotated[
        OutputMode, typer.Option("--output-mode", help="For stateful functions, with --checkpoint.")
    ] = OutputMode.APPEND,
    max_offsets: Annotated[
        int | None,
        typer.Option("--max-offsets", min=1, help="About how many offsets a micro-batch reads of each DataFrame."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the source, such as failOnDataLoss=false; may be repeated. docs/spark-options.md lists them.",
        ),
    ] = None,
    write_to_input: Annotated[
        bool,
        typer.Option(
            "--write-to-input",
            help="Allow a topic in both --from and --to. FUNCTION then reads its own output, without end.",
        ),
    ] = False,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs.")] = "local[*]",
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT,…",
            help=f"The address of one or more brokers. Without it and --config a log runs on {EMBEDDED_ADDRESS} meanwhile.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            parser=filled_path,
            metavar="DIR",
            help=f"Where that log is kept; {DEFAULT_DATA_DIRECTORY} if not given.",
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Run FUNCTION over topics into topics, exactly once, until SIGTERM or Ctrl-C: both are a clean stop.

    Each micro-batch is one transaction over all outputs, with the inputs' offsets inside. FUNCTION gets the columns of
    Spark's Kafka source (key, value, topic, partition, offset, timestamp) and returns value and, if it likes, key, headers,
    topic, partition.
    """
    check_spark("run")
    is_embedded = bootstrap_server is None and config is None
    if not is_embedded and data_dir is not None:
        raise CommandError("--data-dir is for the log that is started without --bootstrap-server", ExitStatus.USAGE)
    if output_mode is not OutputMode.APPEND and checkpoint is None:
        raise CommandError("--output-mode needs a --checkpoint", ExitStatus.USAGE)
    outputs = tuple(targets or ())
    both = set(sources).intersection(outputs)
    if both and not write_to_input:
        raise CommandError(
            f"topic {min(both)} is in --from and --to, and would be read and written without end: write to another topic, or say "
            "--write-to-input where that is meant",
            ExitStatus.USAGE,
        )
    transactional_id = transactional_id or default_transactional_id(outputs)
    interval_ms = 0.0 if trigger is None else parse_interval_ms(trigger)
    from oncelog.cli.run.options import read_options
    from oncelog.cli.run.pipeline import Pipeline, run_pipeline, start_spark
    from oncelog.cli.run.user_file import user_file

    source_options = read_options(options or (), max_offsets, has_checkpoint=checkpoint is not None)
    file = user_file(function)
    file.check(sources, outputs)
    with ExitStack() as stack:
        if is_embedded:
            bootstrap_server = _embedded_log(stack, data_dir or DEFAULT_DATA_DIRECTORY)
        cluster = reach(bootstrap_server, config)
        make_inputs(cluster, sources, may_make=is_embedded)
        spark = start_spark(file.function, master)
        stack.callback(spark.stop)
        transform = file.load(sources)
        make_outputs(cluster, sources, outputs)
        pipeline = Pipeline(
            transform=transform,
            name=file.function,
            sources=tuple(sources),
            targets=outputs,
            bootstrap_servers=cluster.bootstrap_servers,
            kafka_options=cluster.kafka_options,
            transactional_id=transactional_id,
            checkpoint=checkpoint,
            output_mode=output_mode.value,
            trigger=trigger,
            interval_ms=interval_ms,
            source_options=source_options,
            once=once,
            write_to_input=write_to_input,
        )
        run_pipeline(spark, pipeline, _reports(stack, as_json=as_json), stop_on_signals())


def default_transactional_id(targets: tuple[str, ...]) -> str:
    """The name of the one output. Raises CommandError where there is none, or more than one."""
    if len(targets) != 1:
        which = "without --to" if not targets else "with several --to"
        raise CommandError(f"{which}, --transactional-id has to say who writes: one per pipeline", ExitStatus.USAGE)
    return targets[0]


def _reports(stack: ExitStack, *, as_json: bool) -> Reports:
    if as_json:
        return json_reports()
    screen = console()
    if not screen.is_terminal or screen.is_dumb_terminal:
        return plain_reports()
    line = stack.enter_context(ProgressLine(screen))
    return Reports(line.batch, line.lag)


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


def make_inputs(cluster: Reach, sources: list[str], *, may_make: bool) -> None:
    """Make the inputs that are missing, or raise CommandError."""
    with connect(cluster) as client:
        if may_make:
            client.create_topics([NewTopic(name) for name in _missing(client, sources)])
        existing_topics(client, sources)


def make_outputs(cluster: Reach, sources: list[str], targets: tuple[str, ...]) -> None:
    """Make the outputs that are missing, with as many partitions as the largest input."""
    with connect(cluster) as client:
        partitions = max(len(topic.partitions) for topic in existing_topics(client, sources))
        client.create_topics([NewTopic(name, partitions) for name in _missing(client, targets)])


def _missing(client: Client, names: Sequence[str]) -> list[str]:
    described = client.metadata(list(names)) if names else {}
    return [name for name, topic in described.items() if topic.error is ErrorCode.unknown_topic_or_partition]


def _embedded_log(stack: ExitStack, data_directory: Path) -> str:
    """Start a log for as long as this command runs; return its address. Raises CommandError."""
    broker = MemberProcess("the broker", lambda _: None)
    stack.callback(_stop, broker)
    broker.launch(["serve", "--listen", EMBEDDED_ADDRESS, "--data-dir", str(data_directory)])
    try:
        broker.wait_until_ready(EMBEDDED_START_SECONDS)
    except MemberError as error:
        raise CommandError(f"{error}; --bootstrap-server uses a log that runs already", ExitStatus.FAILED) from error
    print(f"log on {EMBEDDED_ADDRESS}, data in {data_directory}", file=sys.stderr)
    return EMBEDDED_ADDRESS


def _stop(broker: MemberProcess) -> None:
    """A broker that takes too long is killed: its log is as good as after a crash."""
    with suppress(MemberError):
        broker.stop()
