"""The demo itself: start a broker, load the flights, run the job in both ways."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from math import ceil
from pathlib import Path

from rich.progress import Progress

from oncelog.cli.broker_process import BrokerProcess
from oncelog.cli.demo.column import Column, Stage, run_column
from oncelog.cli.demo.flights import Flight, flights
from oncelog.cli.demo.loading import create_topics, input_log, load
from oncelog.cli.demo.plan import FLIGHTS_MIN, MICRO_BATCHES, Guarantee
from oncelog.cli.demo.processes import Drivers, free_port
from oncelog.cli.demo.tally import Expectations
from oncelog.testing.proxy import Proxy


def perform(directory: Path, examples: Path, flight_count: int, progress: Progress) -> list[Column]:
    """Run everything in `directory`. Raises ProcessError when a process does not do what it has to."""
    with ExitStack() as stack:
        broker = BrokerProcess(f"127.0.0.1:{free_port()}", directory / "data", directory / "broker.txt")
        stack.callback(broker.stop)
        broker.start()
        proxy = stack.enter_context(Proxy(broker.bootstrap_servers))
        address = ("--bootstrap-server", proxy.bootstrap_servers)
        drivers = Drivers([*address, "--examples", str(examples)], directory)
        stack.callback(drivers.close)
        stage = Stage(directory, drivers, broker, proxy, offsets_per_batch=ceil(flight_count / MICRO_BATCHES))
        log = _loaded(stage, flight_count, progress)
        flown = sum(not flight.is_cancelled for partition in log for flight in partition)
        expectations = Expectations(log)
        return [_column(stage, guarantee, expectations, flown, progress) for guarantee in Guarantee]


def _loaded(stage: Stage, flight_count: int, progress: Progress) -> list[list[Flight]]:
    """Load the flights straight into the broker: nothing is killed yet. The first driver gets ready meanwhile."""
    address = stage.broker.bootstrap_servers
    create_topics(address)
    advance = _advancing(progress, "loading the flights", flight_count)
    coming = flights(flight_count)
    placed = load(address, list(islice(coming, FLIGHTS_MIN)), advance)
    stage.drivers.prepare()
    placed += load(address, list(coming), advance)
    return input_log(placed, flight_count)


def _column(stage: Stage, guarantee: Guarantee, expectations: Expectations, flown: int, progress: Progress) -> Column:
    advance = _advancing(progress, guarantee.value, flown)

    def say(sentence: str) -> None:
        progress.console.print(f"{guarantee.value}: {sentence}", highlight=False, soft_wrap=True)

    return run_column(stage, guarantee, expectations, say, advance)


def _advancing(progress: Progress, description: str, total: int) -> Callable[[int], None]:
    task = progress.add_task(description, total=total)
    return lambda count: progress.advance(task, count)
