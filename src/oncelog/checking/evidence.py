"""The evidence of a history: the writer and the readers of each value, and the order of the values of each key.

The order of a key comes from all polls, including those of failed and unknown operations, because a consumer never sees unsafe
data, even if its own transaction aborts. It comes, too, from the sends of operations that are proven visible. Markers and aborted
records leave gaps between offsets; an index counts the offsets that hold a known value.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from oncelog.checking.history import (
    ConsumerChange,
    ConsumerStep,
    Ending,
    History,
    Identity,
    JsonScalar,
    Key,
    RecordedOperation,
    identity_of,
)


class VersionOrder:
    """The values of one key by their offsets."""

    def __init__(self) -> None:
        self.value_at: dict[int, JsonScalar] = {}
        self.conflicts: dict[int, dict[Identity, JsonScalar]] = {}
        """Offsets that hold more than one value, and all of those."""
        self.offset_of: dict[Identity, int] = {}
        self.copies: dict[Identity, set[int]] = {}
        """Values that are at more than one offset, and all of those."""
        self.offsets = array("q")
        self._wanted_before = array("q")

    def add(self, offset: int, value: JsonScalar) -> None:
        identity = identity_of(value)
        known = self.value_at.setdefault(offset, value)
        if identity_of(known) != identity:
            self.conflicts.setdefault(offset, {identity_of(known): known})[identity] = value
        place = self.offset_of.setdefault(identity, offset)
        if place != offset:
            self.copies.setdefault(identity, {place}).add(offset)

    def close(self, failed: set[Identity]) -> None:
        """Fix the order. A reader need not see what is in `failed`, the values of failed operations."""
        self.offsets = array("q", sorted(self.value_at))
        count, before = 0, array("q", [0])
        for offset in self.offsets:
            count += identity_of(self.value_at[offset]) not in failed
            before.append(count)
        self._wanted_before = before
        for identity, places in self.copies.items():
            self.offset_of[identity] = min(places)

    def value_of(self, identity: Identity, offset: int) -> JsonScalar:
        """The value that the identity stands for, at an offset that holds it."""
        held = self.conflicts.get(offset)
        return self.value_at[offset] if held is None else held[identity]

    def index(self, offset: int) -> int:
        """The dense index of an offset, which holds a known value."""
        return bisect_left(self.offsets, offset)

    def skipped(self, after: int, before: int) -> int:
        """How many values that a reader has to see lie between two offsets."""
        if before - after <= 1:
            return 0
        return self._wanted_before[self.index(before)] - self._wanted_before[self.index(after + 1)]

    def values_between(self, after: int, before: int) -> Iterator[tuple[int, JsonScalar]]:
        """The known values between two offsets."""
        for index in range(self.index(after + 1), self.index(before)):
            offset = self.offsets[index]
            yield offset, self.value_at[offset]

    def known_before(self, offset: int) -> Iterator[JsonScalar]:
        """The known values before an offset, the nearest first."""
        for index in range(self.index(offset) - 1, -1, -1):
            yield self.value_at[self.offsets[index]]


class Evidence:
    """Made in three passes over the history, and read by each search for an anomaly."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.writer_of: dict[Key, dict[Identity, RecordedOperation]] = defaultdict(dict)
        self.polled: dict[Key, set[Identity]] = defaultdict(set)
        self.highest_polled: dict[Key, int] = {}
        self.polled_at_the_end: dict[Key, set[Identity]] = defaultdict(set)
        self.has_final_phase = False
        self.orders: dict[Key, VersionOrder] = defaultdict(VersionOrder)
        self._seen: set[int] = set()
        self._note_sends()
        self._note_polls()
        self._put_in_order()

    def is_visible(self, operation: RecordedOperation) -> bool:
        """It ended ok, or its end is unknown and somebody read one of its values."""
        return operation.ending is Ending.OK or (operation.ending is Ending.UNKNOWN and operation.index in self._seen)

    def writer(self, key: Key, value: JsonScalar) -> RecordedOperation | None:
        writers = self.writer_of.get(key)
        return None if writers is None else writers.get(identity_of(value))

    def _note_sends(self) -> None:
        for operation in self.history.operations:
            for send in operation.sends:
                self.writer_of[send.key][identity_of(send.value)] = operation

    def _note_polls(self) -> None:
        final: set[str] = set()
        for step in self.history.steps:
            if isinstance(step, ConsumerStep):
                if step.change is ConsumerChange.FINAL:
                    final.add(step.process)
                    self.has_final_phase = True
                continue
            for poll in step.polls:
                for key, records in poll.records.items():
                    if records:
                        self._note_records(key, records, is_final=step.process in final)

    def _note_records(self, key: Key, records: tuple[tuple[int, JsonScalar], ...], *, is_final: bool) -> None:
        order, writers, polled = self.orders[key], self.writer_of.get(key, {}), self.polled[key]
        for offset, value in records:
            order.add(offset, value)
            identity = identity_of(value)
            polled.add(identity)
            writer = writers.get(identity)
            if writer is not None and writer.ending is Ending.UNKNOWN:
                self._seen.add(writer.index)
        if is_final:
            self.polled_at_the_end[key].update(identity_of(value) for _, value in records)
        self.highest_polled[key] = max(self.highest_polled.get(key, -1), max(offset for offset, _ in records))

    def _put_in_order(self) -> None:
        failed: dict[Key, set[Identity]] = defaultdict(set)
        for operation in self.history.operations:
            is_visible = self.is_visible(operation)
            for send in operation.sends:
                if operation.ending is Ending.FAILED:
                    failed[send.key].add(identity_of(send.value))
                elif is_visible and send.offset is not None:
                    self.orders[send.key].add(send.offset, send.value)
        for key, order in self.orders.items():
            order.close(failed.get(key, set()))
