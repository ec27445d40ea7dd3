"""The demo: start the brokers, load the flights, run the job in both ways, count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path

from rich.progress import Progress

from oncelog.demo.brokers import Brokers, ClusterState
from oncelog.demo.column import Column, CompletedRuns, Stage, count, run_under_kills
from oncelog.demo.flights import Flight, flights
from oncelog.demo.plan import FLIGHTS_MIN, Guarantee
from oncelog.demo.processes import Drivers
from oncelog.demo.tally import Expectations
from oncelog.demo.topics import create_topics, input_log, load
from oncelog.testing.proxy import Proxy


@dataclass(frozen=True, slots=True)
class Performance:
    """The result. `cluster` is None for one broker."""

    columns: Sequence[Column]
    cluster: ClusterState | None


def perform(
    brokers: Brokers,
    directory: Path,
    examples: Path,
    flight_count: int,
    progress: Progress,
    guarantees: Sequence[Guarantee] = tuple(Guarantee),
) -> Performance:
    """Run everything in `directory`. Raises ProcessError when a process does not do what it has to."""
    with ExitStack() as stack:
        stack.callback(brokers.close)
        brokers.start()
        proxy = stack.enter_context(Proxy(brokers.bootstrap_servers))
        address = ("--bootstrap-server", proxy.bootstrap_servers)
        drivers = Drivers(["-m", "oncelog.demo.driver", *address, "--examples", str(examples)], directory)
        stack.callback(drivers.close)
        stage = Stage(directory, drivers, brokers, proxy, offsets_per_batch=ceil(flight_count / brokers.micro_batches))
        log = _loaded(stage, flight_count, progress)
        flown = sum(not flight.is_cancelled for partition in log for flight in partition)
        expectations = Expectations(log)
        # One column is counted while the next one runs.
        counting = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        counted = [
            counting.submit(count, stage, _run(stage, guarantee, flown, progress), expectations)
            for guarantee in guarantees
        ]
        columns = [column.result() for column in counted]
        return Performance(columns, brokers.state())


def _loaded(stage: Stage, flight_count: int, progress: Progress) -> list[list[Flight]]:
    """Load the flights straight into the brokers: nothing is killed yet. The first driver gets ready meanwhile."""
    address = stage.brokers.bootstrap_servers
    create_topics(address, stage.brokers.replication_factor)
    advance = _advancing(progress, "loading the flights", flight_count)
    coming = flights(flight_count)
    placed = load(address, list(islice(coming, FLIGHTS_MIN)), advance)
    stage.drivers.prepare()
    placed += load(address, list(coming), advance)
    return input_log(placed, flight_count)


def _run(stage: Stage, guarantee: Guarantee, flown: int, progress: Progress) -> CompletedRuns:
    advance = _advancing(progress, guarantee.value, flown)

    def say(sentence: str) -> None:
        progress.console.print(f"{guarantee.value}: {sentence}", highlight=False, soft_wrap=True)

    return run_under_kills(stage, guarantee, say, advance)


def _advancing(progress: Progress, description: str, total: int) -> Callable[[int], None]:
    task = progress.add_task(description, total=total)
    return lambda count: progress.advance(task, count)
