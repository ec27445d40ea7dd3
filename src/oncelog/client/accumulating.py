"""Records that wait to become a batch, and the handle by which a caller learns where a record was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oncelog.client.errors import ClientError
from oncelog.client.lanes import BatchState, OutgoingBatch
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
    """The records of one partition that are not on their way yet."""

    __slots__ = ("callbacks", "error", "first_ms", "outgoing", "partition", "records", "size_bytes")

    def __init__(self, partition: TopicPartition, first_ms: float) -> None:
        self.partition = partition
        self.first_ms = first_ms
        self.records: list[Record] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.size_bytes = HEADER_BYTES
        self.outgoing: OutgoingBatch | None = None
        self.error: ClientError | None = None

    def append(self, record: Record, record_bytes: int) -> int:
        """Add a record of about that size; return its place."""
        self.records.append(record)
        self.size_bytes += record_bytes
        return len(self.records) - 1

    def encode(self, codec: Codec) -> bytes:
        return build_batch(self.records, codec=codec)

    @property
    def is_done(self) -> bool:
        if self.outgoing is None:
            return self.error is not None
        return self.outgoing.state is not BatchState.WAITING

    def result(self, place: int) -> RecordMetadata:
        """Where the record at `place` was written. Raises what kept it from being written."""
        assert self.is_done, "the batch is on its way"
        error = self.error if self.outgoing is None else self.outgoing.error
        if error is not None:
            raise error
        assert self.outgoing is not None
        base_offset = self.outgoing.base_offset
        offset = base_offset + place if base_offset >= 0 else -1
        timestamp_ms = self.records[place].timestamp_ms
        if self.outgoing.log_append_time_ms >= 0:
            timestamp_ms = self.outgoing.log_append_time_ms
        return RecordMetadata(*self.partition, offset, timestamp_ms)

    def outcome(self, place: int) -> tuple[RecordMetadata | None, ClientError | None]:
        """What `result` returns, or else raises."""
        try:
            return self.result(place), None
        except ClientError as error:
            return None, error


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
