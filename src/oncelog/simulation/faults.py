"""The faults of a run: a list that the seed draws before it. Any part of it can be left out, to find the smallest that
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from oncelog.simulation.events import stream


class FaultKind(Enum):
    KILL = "the broker is killed"
    KILL_IN_STEP = "the broker is killed between two changes of the disk"
    POWER = "the power of the broker is cut"
    POWER_IN_STEP = "the power is cut between two changes of the disk"
    POWER_AFTER_ANSWER = "the power is cut right after an answer of one kind, while syncs take long"
    POWER_SERIES = "the power is cut several times, with writes in between"
    POWER_TWICE = "the power is cut, and again while the broker starts"
    POWER_AFTER_CHANGE = "the power is cut right after an administrator was told that something has changed"
    TWO_AT_ONCE = "the broker ends in some way just when something else has gone wrong with it"
    JOURNAL_DAMAGE = "a bit of the journal changes and the broker ends, until somebody repairs it"
    STOP = "the broker is stopped and started"
    PAUSE = "the broker stands still"
    BUSY = "the broker has a lot to do"
    SLOW_DISK = "the disk is slow"
    FAILING_DISK = "the disk answers with errors"
    FULL_DISK = "the disk is full"
    BIT_FLIP = "a bit of a closed segment changes, until somebody repairs it"
    CLOCK = "the broker's time of day jumps"
    CLIENT_KILL = "a client is killed"
    CLIENT_PAUSE = "a client stands still"
    CUT = "a connection is cut at some byte"
    LOST_ANSWER = "an answer of one kind is lost with its connection"
    VANISH = "a connection loses everything, and nobody is told"
    HELD = "what is sent on a connection comes late"
    PART = "a client and the broker are parted"
    LATENCY = "some messages are late"


INTERVALS_S: dict[Enum, float] = {
    FaultKind.KILL: 40,
    FaultKind.KILL_IN_STEP: 60,
    FaultKind.POWER: 50,
    FaultKind.POWER_IN_STEP: 50,
    FaultKind.POWER_AFTER_ANSWER: 40,
    FaultKind.POWER_SERIES: 100,
    FaultKind.POWER_TWICE: 120,
    FaultKind.POWER_AFTER_CHANGE: 40,
    FaultKind.TWO_AT_ONCE: 40,
    FaultKind.JOURNAL_DAMAGE: 120,
    FaultKind.STOP: 120,
    FaultKind.PAUSE: 60,
    FaultKind.BUSY: 30,
    FaultKind.SLOW_DISK: 60,
    FaultKind.FAILING_DISK: 150,
    FaultKind.FULL_DISK: 150,
    FaultKind.BIT_FLIP: 60,
    FaultKind.CLOCK: 60,
    FaultKind.CLIENT_KILL: 15,
    FaultKind.CLIENT_PAUSE: 30,
    FaultKind.CUT: 10,
    FaultKind.LOST_ANSWER: 10,
    FaultKind.VANISH: 40,
    FaultKind.HELD: 20,
    FaultKind.PART: 40,
    FaultKind.LATENCY: 30,
}
"""Seconds from one fault of a kind to the next, on average, in a run that has the kind."""
PACES = (0.15, 0.5, 1.0, 1.0)
"""In some runs all comes faster: what one fault leaves behind meets the next."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """`draw` decides whatever else there is to decide about it, so that it is the same without the others."""

    number: int
    at_ms: float
    kind: Enum
    draw: int

    def __str__(self) -> str:
        return f"{self.number}: after {self.at_ms / 1000:.3f} s {self.kind.value}"


def plan(
    seed: int,
    duration_ms: float,
    left_out: Collection[int] = (),
    intervals_s: Mapping[Enum, float] = MappingProxyType(INTERVALS_S),
) -> list[PlannedFault]:
    """The faults of a run in order. A run has some of the kinds only: what hides another fault is absent now and then."""
    pace = stream(seed, "pace of the faults").choice(PACES)
    drawn: list[tuple[float, Enum, int]] = []
    for kind, interval_s in intervals_s.items():
        random = stream(seed, f"fault {kind.name}")
        if random.random() < 0.35:
            continue
        interval_ms = interval_s * 1000 * pace
        at_ms = random.expovariate(1) * interval_ms
        while at_ms < duration_ms:
            drawn.append((at_ms, kind, random.getrandbits(48)))
            at_ms += random.expovariate(1) * interval_ms
    drawn.sort(key=lambda item: item[0])
    faults = [PlannedFault(number, at_ms, kind, draw) for number, (at_ms, kind, draw) in enumerate(drawn)]
    return [fault for fault in faults if fault.number not in left_out]


RUNS_MAX = 120


def minimise(faults: Sequence[PlannedFault], fails: Callable[[Collection[int]], bool]) -> list[PlannedFault]:
    """Leave out halves, then smaller parts, for as long as `fails` says that the run still does without those numbers.

    At most RUNS_MAX runs are made. What is left is in order; it is empty where the run fails without any fault.
    """
    everything = {fault.number for fault in faults}
    left = list(faults)
    runs = 0
    size = len(left)
    while left and size and runs < RUNS_MAX:
        start = 0
        while start < len(left) and runs < RUNS_MAX:
            kept = left[:start] + left[start + size :]
            runs += 1
            if fails(everything - {fault.number for fault in kept}):
                left = kept
            else:
                start += size
        size = min(size // 2, len(left))
    return left
