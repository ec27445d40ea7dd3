"""The loop that lets simulated time pass, and the report of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.conditions import drawn_constants, few_collections
from oncelog.simulation.disk import ProcessEndedError
from oncelog.simulation.events import Event, EventQueue, stream
from oncelog.simulation.faults import PlannedFault
from oncelog.simulation.history import Outcome, RunHistory

MINUTE_MS = 60_000.0
LIVENESS_MS = 15 * MINUTE_MS
LOOK_MS = 500.0
EVENTS_AT_ONE_TIME_MAX = 20_000


class Driver:
    """Takes the events of a run. What fails in one of them ends the run."""

    def __init__(
        self, queue: EventQueue, happened: Callable[[Event], None], ended_in_step: Callable[[str], None]
    ) -> None:
        """`happened` is called after each event; `ended_in_step` with the node whose disk has ended its process in one."""
        self._queue = queue
        self._happened = happened
        self._ended_in_step = ended_in_step
        self._failure: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error

    def advance(self, until_ms: float) -> None:
        queue = self._queue
        while True:
            try:
                event = queue.step(until_ms)
            except ProcessEndedError as ended:
                self._ended_in_step(ended.node)
                continue
            if self._failure is not None:
                raise self._failure
            if event is None:
                return
            if queue.count_at_this_time > EVENTS_AT_ONE_TIME_MAX:
                raise SimulationFailure(f"time does not go on: {event.label}")
            self._happened(event)

    def until_done(self, what: str, in_progress: Callable[[], str | None], within_ms: float = LIVENESS_MS) -> None:
        """Raise SimulationFailure if something is still in progress when the time is over."""
        end_ms = self._queue.now_ms + within_ms
        while (reason := in_progress()) is not None:
            if self._queue.now_ms >= end_ms:
                raise SimulationFailure(f"without any faults {what}: {reason}")
            self.advance(self._queue.now_ms + LOOK_MS)

    def finish(self, what: str, client: ClientNode, within_ms: float) -> None:
        """Let a client play from its beginning to its end."""
        client.start()
        end_ms = self._queue.now_ms + within_ms
        while not client.is_done:
            if self._queue.now_ms >= end_ms:
                raise SimulationFailure(f"without any faults {what} takes too long")
            self.advance(self._queue.now_ms + LOOK_MS)


def described(error: BaseException) -> str:
    """The text of a report about the failure of a run."""
    if isinstance(error, SimulationFailure):
        return str(error)
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = "" if frame is None else f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})"
    return f"{type(error).__name__}: {error}{where}"


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
