"""Records that wait to become a batch, and the handle by which a caller learns where a record was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from oncelog.client.errors import ClientError
from oncelog.client.producer.lanes import BatchState, Divide, OutgoingBatch
from oncelog.client.values import TopicPartition
from oncelog.records import HEADER_BYTES, Codec, Record, build_batch

RECORD_OVERHEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record was written. `offset` is -1 where the broker did not say: it had it already, or acks is 0."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


OnDelivery = Callable[[RecordMetadata | None, ClientError | None], object]


class OpenBatch:
    """The records of one partition: not on their way yet, then in one outgoing batch, or in halves of their own."""

    __slots__ = ("callbacks", "error", "first_ms", "halves", "outgoing", "partition", "records", "size_bytes")

    def __init__(self, partition: TopicPartition, first_ms: float) -> None:
        self.partition = partition
        self.first_ms = first_ms
        self.records: list[Record] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.size_bytes = HEADER_BYTES
        self.outgoing: OutgoingBatch | None = None
        self.halves: tuple[OpenBatch, OpenBatch] | None = None
        self.error: ClientError | None = None

    def append(self, record: Record, record_bytes: int) -> int:
        """Add a record of about that size; return its place."""
        self.records.append(record)
        self.size_bytes += record_bytes
        return len(self.records) - 1

    def encode(self, codec: Codec) -> bytes:
        return build_batch(self.records, codec=codec)

    def divide(self, codec: Codec) -> Divide | None:
        """How to go on with two halves where a broker refuses the whole, for the sake of one record maybe."""
        return partial(self._divide, codec) if len(self.records) > 1 else None

    def _divide(self, codec: Codec) -> tuple[OutgoingBatch, OutgoingBatch]:
        middle = len(self.records) // 2
        first = self._part(self.records[:middle], codec)
        second = self._part(self.records[middle:], codec)
        self.halves = first, second
        return _outgoing(first), _outgoing(second)

    def _part(self, records: list[Record], codec: Codec) -> OpenBatch:
        part = OpenBatch(self.partition, self.first_ms)
        for record in records:
            part.append(record, size_bytes(record))
        deadline_ms = _outgoing(self).deadline_ms
        part.outgoing = OutgoingBatch(self.partition, part.encode(codec), deadline_ms, part.divide(codec))
        return part

    @property
    def is_done(self) -> bool:
        if self.halves is not None:
            return all(half.is_done for half in self.halves)
        if self.outgoing is None:
            return self.error is not None
        return self.outgoing.state is not BatchState.WAITING

    def result(self, place: int) -> RecordMetadata:
        """Where the record at `place` was written. Raises what kept it from being written."""
        assert self.is_done, "the batch is on its way"
        if self.halves is not None:
            first, second = self.halves
            middle = len(first.records)
            return first.result(place) if place < middle else second.result(place - middle)
        error = self.error if self.outgoing is None else self.outgoing.error
        if error is not None:
            error.was_heard = True
            if isinstance(error.__cause__, ClientError):
                error.__cause__.was_heard = True  # what many batches failed for
            raise error
        outgoing = _outgoing(self)
        base_offset = outgoing.base_offset
        offset = base_offset + place if base_offset >= 0 else -1
        timestamp_ms = self.records[place].timestamp_ms
        if outgoing.log_append_time_ms >= 0:
            timestamp_ms = outgoing.log_append_time_ms
        return RecordMetadata(*self.partition, offset, timestamp_ms)

    def outcome(self, place: int) -> tuple[RecordMetadata | None, ClientError | None]:
        """What `result` returns, or else raises."""
        try:
            return self.result(place), None
        except ClientError as error:
            return None, error


def _outgoing(batch: OpenBatch) -> OutgoingBatch:
    assert batch.outgoing is not None, "a batch that was encoded is on its way"
    return batch.outgoing


def size_bytes(record: Record) -> int:
    """About what a record adds to its batch."""
    size = RECORD_OVERHEAD_BYTES
    if record.key is not None:
        size += len(record.key)
    if record.value is not None:
        size += len(record.value)
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 4
    return size
