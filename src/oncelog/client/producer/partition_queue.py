"""The record batches of one partition that are not acknowledged, and the state of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from typing_extensions import Buffer

from oncelog.client.errors import ClientError
from oncelog.client.net.retry import Backoff
from oncelog.client.values import ProducerIdentity, TopicPartition
from oncelog.records import SEQUENCE_MAX, next_sequence, read_header


class BatchState(Enum):
    WAITING = "waiting"
    WRITTEN = "written"
    FAILED = "failed"


class QueuedBatch:
    """One record batch and its state. `base_offset` is -1 until it is written, or where the broker did not say.

    It is doubtful once it may have been written although no answer said so. `log_append_time_ms` is -1 unless the broker
    has put its own time in the place of the records'. `divide`, if there is one, makes two batches of its records.
    `undivided` is the doubtful batch that it is a part of: its doubt is this one's.
    """

    __slots__ = (
        "base_offset",
        "base_sequence",
        "data",
        "deadline_ms",
        "divide",
        "error",
        "is_doubtful",
        "is_stamped",
        "log_append_time_ms",
        "partition",
        "record_count",
        "retries",
        "state",
        "undivided",
    )

    def __init__(
        self, partition: TopicPartition, data: Buffer, deadline_ms: float, divide: Divide | None = None
    ) -> None:
        self.partition = partition
        self.divide = divide
        self.data = data
        self.deadline_ms = deadline_ms
        self.record_count = read_header(data).record_count
        self.base_sequence = -1
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.is_doubtful = False
        self.is_stamped = False
        self.retries = 0
        self.state = BatchState.WAITING
        self.error: ClientError | None = None
        self.undivided: QueuedBatch | None = None

    @property
    def size_bytes(self) -> int:
        return memoryview(self.data).nbytes

    def fail(self, error: ClientError) -> None:
        self.state, self.error = BatchState.FAILED, error


Divide = Callable[[], tuple[QueuedBatch, QueuedBatch]]


@dataclass(frozen=True, slots=True)
class Written:
    """The acknowledged batches of one partition. The offsets are -1 where the broker did not say."""

    records: int
    batches: int
    size_bytes: int
    first_offset: int
    last_offset: int


class PartitionQueue:
    """The batches of one partition: those that wait, and those that are sent, in the order of their sequences.

    It has a gap after a batch that was stamped and given up, until one after it is acknowledged: the broker takes that one
    only if it has the one given up. A queue that must restart goes on at sequence 0 under the next epoch.
    """

    __slots__ = (
        "backoff",
        "gap_sequence",
        "identity",
        "in_flight",
        "in_flight_max",
        "is_acknowledged",
        "last_error",
        "must_restart",
        "next_sequence",
        "waiting",
        "written",
    )

    def __init__(self, identity: ProducerIdentity, in_flight_max: int) -> None:
        self.identity = identity
        self.in_flight_max = in_flight_max
        self.waiting: deque[QueuedBatch] = deque()
        self.in_flight: list[QueuedBatch] = []
        self.next_sequence = 0
        self.is_acknowledged = False
        self.gap_sequence = -1
        self.must_restart = False
        self.backoff = Backoff()
        self.last_error: ClientError | None = None
        self.written = Written(0, 0, 0, -1, -1)

    @property
    def has_gap(self) -> bool:
        return self.gap_sequence >= 0

    def may_send(self, now_ms: float) -> bool:
        if not self.waiting or now_ms < self.backoff.retry_at_ms or (self.must_restart and self.in_flight):
            return False
        return len(self.in_flight) < (self.in_flight_max if self.is_acknowledged else 1)

    def overdue(self, now_ms: float) -> list[QueuedBatch]:
        """The batches whose time is over, in order."""
        if now_ms < self.deadline_ms():
            return []
        return [batch for batch in (*self.in_flight, *self.waiting) if now_ms >= batch.deadline_ms]

    def deadline_ms(self) -> float:
        """The time at which the next batch is overdue."""
        deadline_ms = self.waiting[0].deadline_ms if self.waiting else float("inf")
        return min(deadline_ms, self.in_flight[0].deadline_ms) if self.in_flight else deadline_ms

    def put_back(self, batch: QueuedBatch) -> None:
        """Queue a batch that was sent again, in order of its sequence; from now on one at a time."""
        self.in_flight.remove(batch)
        self._put_in_order((batch,))

    def divide(self, batch: QueuedBatch) -> tuple[QueuedBatch, QueuedBatch] | None:
        """Put two batches in the place of one that is sent, under the same sequences; None if it has one record.

        If the whole was written although no answer said so, the broker refuses both: their sequences are behind it.
        """
        if batch.divide is None:
            return None
        first, second = batch.divide()
        first.base_sequence = batch.base_sequence
        second.base_sequence = next_sequence(first.base_sequence, first.record_count)
        if batch.is_doubtful:
            first.undivided = second.undivided = batch.undivided or batch
            first.is_doubtful = second.is_doubtful = True
        self.in_flight.remove(batch)
        self._put_in_order((first, second))
        return first, second

    def remove(self, batch: QueuedBatch) -> None:
        """Give a batch up. Where the broker has certainly not written it, the next one may have its sequences."""
        is_newest = batch.base_sequence >= 0 and self._is_newest(batch)
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.waiting.remove(batch)
        if batch.base_sequence < 0:
            return
        if is_newest and not batch.is_doubtful:
            self.next_sequence = batch.base_sequence
        else:
            self.gap_sequence = batch.base_sequence
            self.is_acknowledged = False

    def restart(self, identity: ProducerIdentity) -> None:
        """Go on at sequence 0 under another epoch. Nothing is in flight, and no batch here can have been written."""
        for batch in self.waiting:
            batch.base_sequence = -1
            batch.is_stamped = False
        self.identity = identity
        self.next_sequence = 0
        self.gap_sequence = -1
        self.must_restart = self.is_acknowledged = False

    def is_behind(self, batch: QueuedBatch) -> bool:
        """True if a batch before this one is missing: it has to be sent again, or was given up."""
        return self.has_gap or not self.is_next_in_order(batch)

    def is_next_in_order(self, batch: QueuedBatch) -> bool:
        """True if every batch before this one is acknowledged."""
        others = [other for other in (*self.in_flight, *self.waiting) if other is not batch]
        return not any(self._was_sent_before(other, batch) for other in others)

    def acknowledge(self, batch: QueuedBatch) -> None:
        self.is_acknowledged = True
        if self.has_gap and self._age(batch.base_sequence) < self._age(self.gap_sequence):
            self.gap_sequence = -1
        if batch.undivided is not None and batch.base_offset >= 0 and self.identity.producer_id >= 0:
            self._rule_out(batch.undivided)
        self.last_error = None
        self.backoff.succeed()
        written = self.written
        last_offset = batch.base_offset + batch.record_count - 1 if batch.base_offset >= 0 else -1
        self.written = Written(
            written.records + batch.record_count,
            written.batches + 1,
            written.size_bytes + batch.size_bytes,
            written.first_offset if written.batches else batch.base_offset,
            last_offset,
        )

    def _rule_out(self, undivided: QueuedBatch) -> None:
        """The broker took a part under its own sequences, so the whole is not in its log, and cannot get there any more."""
        for batch in self.waiting:
            if batch.undivided is undivided:
                batch.undivided, batch.is_doubtful = None, False

    def _put_in_order(self, batches: Iterable[QueuedBatch]) -> None:
        for batch in batches:
            place = 0
            while place < len(self.waiting) and self._was_sent_before(self.waiting[place], batch):
                place += 1
            self.waiting.insert(place, batch)
        self.is_acknowledged = False

    def _is_newest(self, batch: QueuedBatch) -> bool:
        """True if nothing was stamped after this batch, and everything before it is acknowledged."""
        after = next_sequence(batch.base_sequence, batch.record_count)
        return self.next_sequence == after and self.is_next_in_order(batch)

    def _was_sent_before(self, first: QueuedBatch, second: QueuedBatch) -> bool:
        return first.base_sequence >= 0 and self._age(first.base_sequence) > self._age(second.base_sequence)

    def _age(self, base_sequence: int) -> int:
        """The number of records since a sequence was given out; sequences wrap around."""
        return (self.next_sequence - base_sequence) & SEQUENCE_MAX
