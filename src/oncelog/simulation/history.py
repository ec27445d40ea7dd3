"""The history of a run: the writes of the clients and their answers, and the reads, for the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog.checking import Sighting, check, compare
from oncelog.checking.anomalies import Anomaly
from oncelog.checking.history import (
    ConsumerChange,
    ConsumerStep,
    Ending,
    History,
    RecordedOperation,
    RecordedPoll,
    RecordedSend,
)
from oncelog.client.values import TopicPartition
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import Sent

COPIED = b" copied "
"""Stands between a value and what tells this attempt to copy it from others."""
PLAIN = b"plain"
"""Values that were written outside transactions begin with it, as the names of their writers do."""
JUDGE = "judge"


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
        """Raise SimulationFailure for an anomaly, given `view`: all that a read_committed reader reads in the end.

        `plain_is_durable` says whether what was acknowledged outside transactions survives a power cut. Of the topics in
        `deleted` anything may be missing.
        """
        report = check(self.as_history(view, plain_is_durable=plain_is_durable, deleted=frozenset(deleted)))
        for found in report.examples:
            # Every record of a run was written by a client whose writes are in its history.
            if found.is_fault or found.anomaly is Anomaly.UNKNOWN_WRITER:
                raise SimulationFailure(f"{found.anomaly.label}: {found.sentence}")

    def as_history(self, view: View, *, plain_is_durable: bool, deleted: frozenset[str]) -> History:
        """The same as the checker takes it: the writes, what each reader polled, and the final phase."""
        steps: list[RecordedOperation | ConsumerStep] = []

        def add(process: str, ending: Ending, done: Sequence[RecordedSend | RecordedPoll], note: str = "") -> None:
            steps.append(RecordedOperation(len(steps), process, ending, tuple(done), note=note))

        sightings = [one for one in self.sightings if one.is_committed_only and one.partition.topic not in deleted]
        visible = {(partition, value) for partition, records in view.items() for _, value in records}
        visible.update((one.partition, value) for one in sightings for _, value in one.seen)
        for one in self.written:
            sends = _sends(one, lambda place: place in visible or place[0].topic not in deleted)
            # Nothing fences the process before outside transactions: its bytes may come when the next has begun.
            process = one.writer if one.is_transactional else f"{one.writer} {one.process}"
            is_visible = any(
                (partition, value) in visible for partition, values in one.values.items() for value in values
            )
            add(
                process,
                _ending(one, is_visible=is_visible, plain_is_durable=plain_is_durable),
                sends,
                one.outcome.value,
            )
        for sighting in sightings:
            # A power cut may take what was seen of records outside transactions.
            seen = [item for item in sighting.seen if not item[1].startswith(PLAIN)]
            if seen:
                add(f"{sighting.reader} {len(steps)}", Ending.OK, [_poll({sighting.partition: seen})])
        steps.append(ConsumerStep(ConsumerChange.FINAL, JUDGE))
        add(JUDGE, Ending.OK, [_poll(view)])
        return History(tuple(steps))

    def check_copies(self, view: View, source: str, target: str) -> None:
        """Every record of one topic was copied to the other exactly once."""
        copied = compare(_sightings(view, source), _sightings(view, target))
        if not copied.is_exact:
            raise SimulationFailure(f"copies: {(*copied.lost, *copied.duplicated, *copied.unexpected)[:3]}")


def _ending(one: WrittenTogether, *, is_visible: bool, plain_is_durable: bool) -> Ending:
    """A transaction of which a part is visible has happened: all of it has to be there."""
    if one.outcome is Outcome.FAILED:
        return Ending.FAILED
    if one.is_transactional:
        return Ending.OK if one.outcome is Outcome.COMMITTED or is_visible else Ending.UNKNOWN
    return Ending.OK if one.outcome is Outcome.COMMITTED and plain_is_durable else Ending.UNKNOWN


def _sends(one: WrittenTogether, is_wanted: Callable[[tuple[TopicPartition, bytes]], bool]) -> list[RecordedSend]:
    told = {(partition, value): sent.offset() for partition, value, sent in one.sent}
    return [
        RecordedSend(_key(partition, value), _text(value), told.get((partition, value)))
        for partition, values in one.values.items()
        for value in values
        if is_wanted((partition, value))
    ]


def _poll(records: View) -> RecordedPoll:
    polled: dict[str, list[tuple[int, str]]] = {}
    for partition, found in records.items():
        for offset, value in found:
            polled.setdefault(_key(partition, value), []).append((offset, _text(value)))
    return RecordedPoll({key: tuple(found) for key, found in polled.items()})


def _key(partition: TopicPartition, value: bytes) -> str:
    """Records outside transactions have keys of their own: they may go where those of transactions stay."""
    return f"{PLAIN.decode()} {partition}" if value.startswith(PLAIN) else str(partition)


def _text(value: bytes) -> str:
    """The dots at its end only make it long."""
    return value.rstrip(b".").decode()


def _sightings(view: View, topic: str) -> Iterator[Sighting[bytes]]:
    for partition, records in view.items():
        if partition.topic == topic:
            for offset, value in records:
                yield Sighting(value.partition(COPIED)[0], None, partition.partition, offset)


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
