"""The record batches of one partition on their way to its leader, and how far each has come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from typing_extensions import Buffer

from oncelog.client.errors import ClientError
from oncelog.client.values import TopicPartition
from oncelog.records import SEQUENCE_MAX, next_sequence, read_header


class BatchState(Enum):
    WAITING = "waiting"
    WRITTEN = "written"
    FAILED = "failed"


class OutgoingBatch:
    """One record batch and where it is. `base_offset` is -1 until it is written, or where the broker did not say.

    It is doubtful once it may have been written although no answer said so. `log_append_time_ms` is -1 unless the broker
    has put its own time in the place of the records'.
    """

    __slots__ = (
        "base_offset",
        "base_sequence",
        "data",
        "deadline_ms",
        "error",
        "is_doubtful",
        "log_append_time_ms",
        "partition",
        "record_count",
        "state",
    )

    def __init__(self, partition: TopicPartition, data: Buffer, deadline_ms: float) -> None:
        self.partition = partition
        self.data = data
        self.deadline_ms = deadline_ms
        self.record_count = read_header(data).record_count
        self.base_sequence = -1
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.is_doubtful = False
        self.state = BatchState.WAITING
        self.error: ClientError | None = None

    @property
    def size_bytes(self) -> int:
        return memoryview(self.data).nbytes

    def fail(self, error: ClientError) -> None:
        self.state, self.error = BatchState.FAILED, error


@dataclass(frozen=True, slots=True)
class Written:
    """What was acknowledged in one partition. The offsets are -1 where the broker did not say."""

    records: int
    batches: int
    size_bytes: int
    first_offset: int
    last_offset: int


class Lane:
    """The batches of one partition: those that wait, and those that are sent, in the order of their sequences."""

    __slots__ = (
        "in_flight",
        "in_flight_max",
        "is_acknowledged",
        "next_sequence",
        "pause_ms",
        "queue",
        "retry_at_ms",
        "trouble",
        "written",
    )

    def __init__(self, in_flight_max: int) -> None:
        self.in_flight_max = in_flight_max
        self.queue: deque[OutgoingBatch] = deque()
        self.in_flight: list[OutgoingBatch] = []
        self.next_sequence = 0
        self.is_acknowledged = False
        self.retry_at_ms = 0.0
        self.pause_ms = 0.0
        self.trouble: ClientError | None = None
        self.written = Written(0, 0, 0, -1, -1)

    def may_send(self, now_ms: float) -> bool:
        if not self.queue or now_ms < self.retry_at_ms:
            return False
        return len(self.in_flight) < (self.in_flight_max if self.is_acknowledged else 1)

    def put_back(self, batch: OutgoingBatch) -> None:
        """Queue a batch that was sent again, in order of its sequence; from now on one at a time."""
        self.in_flight.remove(batch)
        place = 0
        while place < len(self.queue) and self._was_sent_before(self.queue[place], batch):
            place += 1
        self.queue.insert(place, batch)
        self.is_acknowledged = False

    def is_newest(self, batch: OutgoingBatch) -> bool:
        """Whether nothing was stamped after this batch, and nothing before it is without an acknowledgement."""
        after = next_sequence(batch.base_sequence, batch.record_count)
        return self.next_sequence == after and self.is_next_in_order(batch)

    def is_next_in_order(self, batch: OutgoingBatch) -> bool:
        """Whether no batch before this one is without an acknowledgement."""
        others = [other for other in (*self.in_flight, *self.queue) if other is not batch]
        return not any(self._was_sent_before(other, batch) for other in others)

    def _was_sent_before(self, first: OutgoingBatch, second: OutgoingBatch) -> bool:
        return first.base_sequence >= 0 and self._age(first) > self._age(second)

    def _age(self, batch: OutgoingBatch) -> int:
        """How many records ago a batch was stamped; sequences wrap around."""
        return (self.next_sequence - batch.base_sequence) & SEQUENCE_MAX

    def acknowledge(self, batch: OutgoingBatch) -> None:
        self.is_acknowledged = True
        self.pause_ms = 0.0
        written = self.written
        last_offset = batch.base_offset + batch.record_count - 1 if batch.base_offset >= 0 else -1
        self.written = Written(
            written.records + batch.record_count,
            written.batches + 1,
            written.size_bytes + batch.size_bytes,
            written.first_offset if written.batches else batch.base_offset,
            last_offset,
        )
