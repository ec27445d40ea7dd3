"""What is measured, what was found on each side, and whether that is enough."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Side(Enum):
    """Whose figure it is."""

    OURS = "oncelog"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure to reach: of ours alone in the measure's unit, or of ours as a multiple of the peer's."""

    value: float
    is_at_most: bool
    is_of_ratio: bool = False

    def holds(self, figure: float) -> bool:
        return figure <= self.value if self.is_at_most else figure >= self.value


def at_most(value: float) -> Bound:
    return Bound(value, is_at_most=True)


def at_least(value: float) -> Bound:
    return Bound(value, is_at_most=False)


def at_most_times_peer(value: float) -> Bound:
    return Bound(value, is_at_most=True, is_of_ratio=True)


def at_least_times_peer(value: float) -> Bound:
    return Bound(value, is_at_most=False, is_of_ratio=True)


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of a table. A measure without a target is there to explain another."""

    name: str
    unit: str
    target: Bound | None = None


class Verdict(Enum):
    REACHED = "reached"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Figures:
    """The samples of one measure, run by run."""

    measure: Measure
    samples: dict[Side, list[float]] = field(default_factory=lambda: {side: [] for side in Side})

    def median(self, side: Side) -> float | None:
        return statistics.median(self.samples[side]) if self.samples[side] else None

    @property
    def ratio(self) -> float | None:
        """Ours divided by the peer's."""
        ours, peer = self.median(Side.OURS), self.median(Side.PEER)
        return None if ours is None or not peer else ours / peer

    @property
    def verdict(self) -> Verdict:
        target = self.measure.target
        if target is None:
            return Verdict.UNKNOWN
        figure = self.ratio if target.is_of_ratio else self.median(Side.OURS)
        if figure is None:
            return Verdict.UNKNOWN
        return Verdict.REACHED if target.holds(figure) else Verdict.MISSED


class Table:
    """All measures of one program."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.rows = [Figures(measure) for measure in measures]

    def add(self, side: Side, found: Mapping[str, float]) -> None:
        """Take in one run's figures, by the measures' names. A measure that was not taken stays as it is."""
        rows = {row.measure.name: row for row in self.rows}
        for name, value in found.items():
            rows[name].samples[side].append(value)
