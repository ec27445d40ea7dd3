"""What came of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog.simulation.conditions import few_collections
from oncelog.simulation.constants import drawn_constants
from oncelog.simulation.driving import described
from oncelog.simulation.events import EventQueue, stream
from oncelog.simulation.faults import PlannedFault
from oncelog.simulation.history import Outcome, RunHistory


@dataclass(frozen=True, slots=True)
class Report:
    """`failure` is None where everything held."""

    seed: int
    minutes: float
    failure: str | None
    trace: str
    events: int
    simulated_ms: float
    committed: int
    aborted: int
    unknown: int
    starts: int
    records_seen: int
    happened: Mapping[Enum, int]
    planned: tuple[PlannedFault, ...] = field(repr=False)


def failure_of(seed: int, play: Callable[[], None]) -> str | None:
    """Play a run. Raises nothing: what fails is returned."""
    with few_collections(), drawn_constants(stream(seed, "constants")):
        try:
            play()
        except Exception as error:  # noqa: BLE001 - a bug of a broker comes out here
            return described(error)
    return None


def report_of(
    seed: int,
    minutes: float,
    failure: str | None,
    queue: EventQueue,
    history: RunHistory,
    starts: int,
    happened: Mapping[Enum, int],
    planned: Sequence[PlannedFault],
) -> Report:
    return Report(
        seed,
        minutes,
        failure,
        queue.trace,
        queue.count,
        queue.now_ms,
        history.count(Outcome.COMMITTED),
        history.count(Outcome.FAILED),
        history.count(Outcome.UNKNOWN),
        starts,
        sum(len(sighting.seen) for sighting in history.sightings),
        Counter(happened),
        tuple(planned),
    )
