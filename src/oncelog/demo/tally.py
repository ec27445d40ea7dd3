"""The counts of the demo's table: the output of a pipeline, compared with the expected records.

The expected records are computed from the data set and from the order of the flights in the input topic. Only the end of each
micro-batch is taken from Spark, because the running totals are published once for each.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from oncelog.checking import Sighting, compare
from oncelog.demo.flights import AirlineTotals, Flight, departure
from oncelog.demo.plan import AIRLINES, DEPARTURES, INPUT_TOPIC, PARTITIONS, DemoPipeline

Place = tuple[str, int, int]
Identity = tuple[bytes | None, bytes]
"""Key and value: two records are the same record when both are, byte for byte."""

InputLog = Sequence[Sequence[Flight]]
"""The flights of each partition of the input topic, by offset."""


class ExpectedPlace(NamedTuple):
    """The micro-batch of an expected record, and its position among the records of its key."""

    batch: int
    position: int


class OutputRecord(NamedTuple):
    """One record of an output topic, as a read_committed reader gets it at the end."""

    place: Place
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one pipeline, or of several together. All but `expected` are zero when nothing went wrong."""

    expected: int = 0
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    out_of_order: int = 0
    aborted_seen: int = 0
    partial_batches: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Tally)))

    @property
    def is_exact(self) -> bool:
        return not any(getattr(self, field.name) for field in fields(Tally) if field.name != "expected")


def batch_ends(checkpoint: Path) -> list[list[int]]:
    """The end offset of each input partition after each micro-batch, from Spark's own log of them."""
    logged = sorted((int(path.name), path) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    ends = []
    for _, path in logged:
        by_partition: Mapping[str, int] = json.loads(path.read_text().splitlines()[2])[INPUT_TOPIC]
        ends.append([by_partition.get(str(number), 0) for number in range(PARTITIONS)])
    return ends


class Expectations:
    """The expected records for one input topic. They are computed once for the same ends of micro-batches."""

    def __init__(self, log: InputLog) -> None:
        self._log = log
        self._known: dict[tuple[DemoPipeline, tuple[tuple[int, ...], ...]], dict[Identity, ExpectedPlace]] = {}

    def of(self, pipeline: DemoPipeline, ends: Sequence[Sequence[int]]) -> Mapping[Identity, ExpectedPlace]:
        known = (pipeline, tuple(map(tuple, ends)))
        if known not in self._known:
            self._known[known] = expected(pipeline, self._log, ends)
        return self._known[known]


def expected(pipeline: DemoPipeline, log: InputLog, ends: Sequence[Sequence[int]]) -> dict[Identity, ExpectedPlace]:
    """Every record that a pipeline must have put out for the micro-batches that end there."""
    if pipeline is DEPARTURES:
        return dict(_expected_departures(log, ends))
    assert pipeline is AIRLINES
    return dict(_expected_totals(log, ends))


def _expected_departures(log: InputLog, ends: Sequence[Sequence[int]]) -> Iterator[tuple[Identity, ExpectedPlace]]:
    for batch, _, position, flight in _in_batches(log, ends):
        record = departure(flight)
        if record is not None:
            yield (flight.key, _json(record)), ExpectedPlace(batch, position)


def _expected_totals(log: InputLog, ends: Sequence[Sequence[int]]) -> Iterator[tuple[Identity, ExpectedPlace]]:
    flights: dict[int, list[Flight]] = defaultdict(list)
    for batch, _, _, flight in _in_batches(log, ends):
        flights[batch].append(flight)
    totals = AirlineTotals()
    for batch in range(len(ends)):
        for carrier, record in totals.add(flights[batch]).items():
            yield (carrier.encode(), _json(record)), ExpectedPlace(batch, batch)


def _in_batches(log: InputLog, ends: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, int, Flight]]:
    """Each flight with its micro-batch, its partition and its position there."""
    starts: Sequence[int] = [0] * PARTITIONS
    for batch, end in enumerate(ends):
        for number in range(PARTITIONS):
            for position in range(starts[number], end[number]):
                yield batch, number, position, log[number][position]
        starts = end


def tally(
    due: Mapping[Identity, ExpectedPlace], outputs: Iterable[OutputRecord], meant: Set[Place], seen: Iterable[Place]
) -> Tally:
    """Count what is wrong. `outputs` come in the order of their offsets in each partition.

    `seen` is what the concurrent reader got. A place that is not in `meant` is that of a record of an aborted attempt.
    """
    came_out = [Sighting((one.key, one.value), one.key, *one.place[1:]) for one in outputs]
    found = compare((Sighting(identity, identity[0], 0, when.position) for identity, when in due.items()), came_out)
    return Tally(
        expected=found.expected,
        lost=len(found.lost),
        duplicated=len(found.duplicated),
        unexpected=len(found.unexpected),
        out_of_order=len(found.out_of_order),
        aborted_seen=sum(place not in meant for place in seen),
        partial_batches=_partial_batches(due, Counter(one.identity for one in came_out)),
    )


def _partial_batches(due: Mapping[Identity, ExpectedPlace], copies: Mapping[Identity, int]) -> int:
    """Micro-batches of which some records are there more often than others: an attempt left only a part behind."""
    seen: dict[int, set[int]] = defaultdict(set)
    for identity, when in due.items():
        seen[when.batch].add(copies.get(identity, 0))
    return sum(len(counts) > 1 for counts in seen.values())


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _json(record: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(record).encode()
