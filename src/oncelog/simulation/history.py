"""The history of a run: the writes of the clients and their answers, and the checks of the final logs against them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog.client.values import TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import Sent

COPIED = b" copied "
"""Between a value and what makes this attempt to copy it another than the one before."""


class Outcome(Enum):
    """The outcome of a write, as its writer knows it."""

    OPEN = "open"
    ENDING = "its commit was asked for"
    COMMITTED = "committed"
    FAILED = "not committed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class WrittenTogether:
    """Values that were written together: the records of a transaction, or one record outside of any.

    If they must be visible, each is seen once, in this order within a partition. `process` counts the processes that
    the writer had before.
    """

    writer: str
    process: int
    is_transactional: bool
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    outcome: Outcome = Outcome.OPEN
    sent: list[tuple[TopicPartition, bytes, Sent]] = field(default_factory=list)

    def add(self, partition: TopicPartition, value: bytes) -> None:
        self.values.setdefault(partition, []).append(value)


@dataclass(slots=True)
class ReaderSighting:
    """The records that one reader saw of one partition without a break, and the offset up to which it has read."""

    reader: str
    is_committed_only: bool
    partition: TopicPartition
    seen: list[tuple[int, bytes]] = field(default_factory=list)


View = Mapping[TopicPartition, Sequence[tuple[int, bytes]]]


class RunHistory:
    def __init__(self) -> None:
        self.written: list[WrittenTogether] = []
        self.sightings: list[ReaderSighting] = []
        self.polls = 0
        self._processes: Counter[str] = Counter()

    def write(self, writer: str, *, is_transactional: bool) -> WrittenTogether:
        made = WrittenTogether(writer, self._processes[writer], is_transactional)
        self.written.append(made)
        return made

    def read(self, reader: str, partition: TopicPartition, *, is_committed_only: bool) -> ReaderSighting:
        made = ReaderSighting(reader, is_committed_only, partition)
        self.sightings.append(made)
        return made

    def died(self, writer: str) -> None:
        """A process is gone: what it had asked for may be so or not, what it had not asked for is not."""
        self._processes[writer] += 1
        for one in reversed(self.written):
            if one.writer == writer and one.outcome in (Outcome.OPEN, Outcome.ENDING):
                is_open = one.outcome is Outcome.OPEN and one.is_transactional
                one.outcome = Outcome.FAILED if is_open else Outcome.UNKNOWN

    def count(self, outcome: Outcome) -> int:
        return sum(one.outcome is outcome and one.is_transactional for one in self.written)

    def check(self, view: View, *, plain_is_durable: bool, deleted: Iterable[str]) -> None:
        """Raise SimulationFailure for what read_committed shows in the end and must not, or does not and must.

        `plain_is_durable` says whether what was acknowledged outside transactions survives a power cut. Of the topics in
        `deleted` anything may be missing.
        """
        gone = frozenset(deleted)
        there = {partition: Counter(value for _, value in records) for partition, records in view.items()}
        visible: dict[TopicPartition, set[bytes]] = {}
        for one in self.written:
            self._check_written(one, there, visible, plain_is_durable=plain_is_durable, gone=gone)
        for partition, values in there.items():
            for value, times in values.items():
                _must(times == 1, f"{partition}: {value!r} is there {times} times")
                _must(value in visible.get(partition, ()), f"{partition}: {value!r} is visible and must not be")
        self._check_order(view)
        self._check_told(view)
        for sighting in self.sightings:
            if sighting.is_committed_only and sighting.partition.topic not in gone:
                self._check_sighting(sighting, view)

    def _check_written(
        self,
        one: WrittenTogether,
        there: Mapping[TopicPartition, Mapping[bytes, int]],
        visible: dict[TopicPartition, set[bytes]],
        *,
        plain_is_durable: bool,
        gone: frozenset[str],
    ) -> None:
        seen, missing = [], []
        for partition, values in one.values.items():
            for value in values:
                if there.get(partition, {}).get(value):
                    seen.append((partition, value))
                elif partition.topic not in gone:
                    missing.append((partition, value))
        what = f"{one.writer}, {one.outcome.value}"
        must_be_there = one.outcome is Outcome.COMMITTED and (one.is_transactional or plain_is_durable)
        _must(not (must_be_there and missing), f"{what}: lost {missing[:3]}")
        _must(not (one.outcome is Outcome.FAILED and seen), f"{what}: visible none the less: {seen[:3]}")
        if one.is_transactional:
            _must(not (seen and missing), f"{what}: {seen[:1]} is visible and {missing[:1]} is not")
        if one.outcome is not Outcome.FAILED:
            for partition, value in seen:
                visible.setdefault(partition, set()).add(value)

    def _check_order(self, view: View) -> None:
        """Within a partition, what one process wrote later comes later.

        So does what the next process of a writer wrote in transactions, which fences the one before. Outside of them, bytes
        of a process may come when the next has begun.
        """
        places = {(p, value): offset for p, records in view.items() for offset, value in records}
        last: dict[tuple[str, int, TopicPartition], tuple[int, bytes]] = {}
        for one in self.written:
            process = 0 if one.is_transactional else one.process
            for partition, values in one.values.items():
                for value in values:
                    offset = places.get((partition, value))
                    if offset is None:
                        continue
                    before = last.get((one.writer, process, partition), (-1, b""))
                    _must(offset > before[0], f"{partition}: {value!r} comes before {before[1]!r}")
                    last[one.writer, process, partition] = offset, value

    def _check_told(self, view: View) -> None:
        """Check that each record is at the offset that its writer was given."""
        places = {(p, value): offset for p, records in view.items() for offset, value in records}
        for one in self.written:
            for partition, value, sent in one.sent:
                offset, told = places.get((partition, value)), sent.offset()
                _must(None in (offset, told) or offset == told, f"{partition}: {value!r} is at {offset}, not at {told}")

    def _check_sighting(self, sighting: ReaderSighting, view: View) -> None:
        """Check that transactional records which were seen are still there, at the same offsets, and that none between
        was passed over.
        """
        if not sighting.seen:
            return
        records = view[sighting.partition]
        first = bisect_left(records, sighting.seen[0][0], key=_offset)
        after = bisect_right(records, sighting.seen[-1][0], key=_offset)
        seen = [item for item in sighting.seen if not item[1].startswith(b"plain")]
        kept = [item for item in records[first:after] if not item[1].startswith(b"plain")]
        if seen != kept:
            odd = [item for item in seen if item not in kept][:3] or [item for item in kept if item not in seen][:3]
            raise SimulationFailure(f"{sighting.reader} saw {sighting.partition} otherwise than it is: {odd}")

    def check_copies(self, view: View, source: str, target: str) -> None:
        """Every record of one topic was copied to the other exactly once."""
        wanted = Counter(value for p, records in view.items() if p.topic == source for _, value in records)
        copies = (value for p, records in view.items() if p.topic == target for _, value in records)
        found = Counter(value.partition(COPIED)[0] for value in copies)
        _must(wanted == found, f"copies: {sorted((wanted - found) + (found - wanted))[:3]} are lost or there twice")


def _offset(item: tuple[int, bytes]) -> int:
    return item[0]


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SimulationFailure(otherwise)


@dataclass(slots=True)
class PlainCommits:
    """The commits of a group's only member, and their answers. A later life has another generation, which refuses late
    requests of the one before; within one life, a request that was sent twice may arrive behind those that follow
    it.

    A kill of the broker takes none of them, and a power cut any: `power_cuts` is how many there were.
    """

    power_cuts: Callable[[], int]
    asked: dict[TopicPartition, set[int]] = field(default_factory=dict)
    possible: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """The offsets of which one is the last that was committed."""
    cuts: int = 0
    """The power cuts that `possible` knows of."""

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._look_for_power_cuts()
        for partition, offset in offsets.items():
            for seen in (self.asked, self.possible):
                seen.setdefault(partition, {-1}).add(offset)

    def answered(self, offsets: Mapping[TopicPartition, int], *, is_doubtful: bool) -> None:
        """Take an answer: the last request was carried out, for sure before any power cut since."""
        if not is_doubtful and self.cuts == self.power_cuts():
            self.possible.update({partition: {offset} for partition, offset in offsets.items()})

    def _look_for_power_cuts(self) -> None:
        if self.cuts != self.power_cuts():
            self.cuts = self.power_cuts()
            self.possible = {partition: set(offsets) for partition, offsets in self.asked.items()}

    def check(self, committed: Callable[[TopicPartition], int]) -> None:
        """Raise SimulationFailure where an offset is none of those; -1 is no offset."""
        self._look_for_power_cuts()
        for partition, possible in self.possible.items():
            found = committed(partition)
            if found not in possible:
                raise SimulationFailure(
                    f"{partition}: {found} is committed, and it must be one of {sorted(possible)[-5:]}"
                )
