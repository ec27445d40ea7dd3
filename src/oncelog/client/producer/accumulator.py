"""Records that a producer has taken and not sent: checked, then in the open batch of their partition, then in a full one."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from oncelog.client.errors import ClientError
from oncelog.client.producer.partition_choice import PartitionChoice
from oncelog.client.producer.partition_queue import BatchState, Divide, QueuedBatch
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import TopicPartition
from oncelog.records import HEADER_BYTES, Codec, Record, build_batch

RECORD_OVERHEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """The place of a written record. `offset` is -1 where the broker did not say: the record was a duplicate, or acks is 0."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


OnDelivery = Callable[[RecordMetadata | None, ClientError | None], object]


class ProducerBatch:
    """The records of one partition: not sent yet, then in one encoded batch, or in two halves."""

    __slots__ = ("callbacks", "encoded", "error", "first_ms", "halves", "partition", "records", "size_bytes")

    def __init__(self, partition: TopicPartition, first_ms: float) -> None:
        self.partition = partition
        self.first_ms = first_ms
        self.records: list[Record] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.size_bytes = HEADER_BYTES
        self.encoded: QueuedBatch | None = None
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self.error: ClientError | None = None

    def append(self, record: Record, record_bytes: int) -> int:
        """Add a record of about that size; return its place."""
        self.records.append(record)
        self.size_bytes += record_bytes
        return len(self.records) - 1

    def encode(self, codec: Codec) -> bytes:
        return build_batch(self.records, codec=codec)

    def divide(self, codec: Codec) -> Divide | None:
        """A function that makes two halves, for a broker that refuses the whole because of one record."""
        return partial(self._divide, codec) if len(self.records) > 1 else None

    def _divide(self, codec: Codec) -> tuple[QueuedBatch, QueuedBatch]:
        middle = len(self.records) // 2
        first = self._part(self.records[:middle], codec)
        second = self._part(self.records[middle:], codec)
        self.halves = first, second
        return _encoded(first), _encoded(second)

    def _part(self, records: list[Record], codec: Codec) -> ProducerBatch:
        part = ProducerBatch(self.partition, self.first_ms)
        for record in records:
            part.append(record, size_bytes(record))
        deadline_ms = _encoded(self).deadline_ms
        part.encoded = QueuedBatch(self.partition, part.encode(codec), deadline_ms, part.divide(codec))
        return part

    @property
    def is_done(self) -> bool:
        if self.halves is not None:
            return all(half.is_done for half in self.halves)
        if self.encoded is None:
            return self.error is not None
        return self.encoded.state is not BatchState.WAITING

    def result(self, place: int) -> RecordMetadata:
        """The metadata of the record at `place`. Raises the error of a record that was not written."""
        assert self.is_done, "the batch is in flight"
        if self.halves is not None:
            first, second = self.halves
            middle = len(first.records)
            return first.result(place) if place < middle else second.result(place - middle)
        error = self.error if self.encoded is None else self.encoded.error
        if error is not None:
            error.was_reported = True
            if isinstance(error.__cause__, ClientError):
                error.__cause__.was_reported = True  # what many batches failed for
            raise error
        encoded = _encoded(self)
        base_offset = encoded.base_offset
        offset = base_offset + place if base_offset >= 0 else -1
        timestamp_ms = self.records[place].timestamp_ms
        if encoded.log_append_time_ms >= 0:
            timestamp_ms = encoded.log_append_time_ms
        return RecordMetadata(*self.partition, offset, timestamp_ms)

    def outcome(self, place: int) -> tuple[RecordMetadata | None, ClientError | None]:
        """The result, or the error that `result` raises."""
        try:
            return self.result(place), None
        except ClientError as error:
            return None, error


def _encoded(batch: ProducerBatch) -> QueuedBatch:
    assert batch.encoded is not None, "the batch was not encoded"
    return batch.encoded


def size_bytes(record: Record) -> int:
    """The size that a record adds to its batch, about."""
    size = RECORD_OVERHEAD_BYTES
    if record.key is not None:
        size += len(record.key)
    if record.value is not None:
        size += len(record.value)
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 4
    return size


TIMESTAMP_MAX_MS = 2**63 - 1
Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None
"""Several of one name are pairs; None is what confluent-kafka says of a record without any."""


def given_record(key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> Record:
    """Raises TypeError or ValueError for what no record can have: encoded later, it would take others with it."""
    return Record(
        _data("key", key),
        _data("value", value),
        tuple((_name(name), _data(f"header {name!r}", data)) for name, data in _pairs(headers)) if headers else (),
        _timestamp_ms(timestamp_ms),
    )


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"the headers of a record are a dict or pairs, and {headers!r} is a {type(headers).__name__}")
    for header in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f"a header is a pair of a name and bytes or None, and {header!r} is none")
        yield header[0], header[1]


def _data(what: str, data: object) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        # The caller may change it before it is sent.
        return bytes(data)
    raise TypeError(f"the {what} of a record is bytes or None, and this one is a {type(data).__name__}")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, and {name!r} is a {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of a header is UTF-8, and {name!r} cannot be: {error.reason}") from error
    return name


def _timestamp_ms(timestamp_ms: int) -> int:
    try:
        whole = operator.index(timestamp_ms)
    except TypeError:
        raise TypeError(f"timestamp_ms is an int, and {timestamp_ms!r} is a {type(timestamp_ms).__name__}") from None
    if not 0 <= whole <= TIMESTAMP_MAX_MS:
        raise ValueError(f"timestamp_ms is {whole}: it counts the milliseconds since 1970, in 63 bits")
    return whole


RECORD_BYTES_MAX = 2**31 - 1 - HEADER_BYTES
"""The length of a batch is an int32."""


class RecordAccumulator:
    """A batch is open until it has no room for the next record, has waited for `linger_ms`, or is to be sent now."""

    def __init__(self, settings: ProducerSettings, choice: PartitionChoice) -> None:
        self.size_bytes = 0
        """The size of all records in it."""
        self.sends_now = False
        """True while batches are sent without waiting for more records."""
        self._settings = settings
        self._choice = choice
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self._full: deque[ProducerBatch] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._full

    @property
    def record_count(self) -> int:
        return sum(len(batch.records) for batch in (*self._full, *self._open.values()))

    def place(self, topic: str, record: Record) -> TopicPartition:
        """The partition of a record for which the partitioner makes no choice.

        A full batch ends its partition's turn: the record that has no room in it begins no other batch there.
        """
        added_bytes = size_bytes(record)
        while True:
            partition = TopicPartition(topic, self._choice.sticky(topic))
            if not self._close_if_full(partition, added_bytes):
                return partition

    def append(self, partition: TopicPartition, record: Record, now_ms: float) -> tuple[ProducerBatch, int]:
        """Put a record into the open batch of its partition; return the batch and the record's place in it.

        Raises ValueError when no batch can hold the record.
        """
        added_bytes = size_bytes(record)
        if added_bytes > RECORD_BYTES_MAX:
            raise ValueError(f"a record has at most {RECORD_BYTES_MAX} bytes, and this one has about {added_bytes}")
        self._close_if_full(partition, added_bytes)
        batch = self._open.get(partition)
        if batch is None:
            batch = ProducerBatch(partition, now_ms)
        place = batch.append(record, added_bytes)
        self._open[partition] = batch
        self.size_bytes += added_bytes
        return batch, place

    def holds(self, record: Record) -> bool:
        """True if this very record is in it."""
        return any(held is record for batch in (*self._full, *self._open.values()) for held in batch.records)

    def close_ripe(self, now_ms: float) -> float | None:
        """Close every batch that has waited long enough; return how long the next one may still wait."""
        linger_ms = self._settings.linger_ms
        for batch in list(self._open.values()):
            if self.sends_now or now_ms - batch.first_ms >= linger_ms:
                self._close(batch, is_full=False)
        left_ms = [batch.first_ms + linger_ms - now_ms for batch in self._open.values()]
        return min(left_ms, default=None)

    def take_full(self) -> ProducerBatch | None:
        """The next batch to be sent."""
        if not self._full:
            return None
        batch = self._full.popleft()
        self.size_bytes -= batch.size_bytes - HEADER_BYTES
        return batch

    def take_all(self) -> list[ProducerBatch]:
        """Full batches and open ones, none of which will be sent."""
        batches = [*self._full, *self._open.values()]
        self._full.clear()
        self._open.clear()
        self.size_bytes = 0
        return batches

    def _close_if_full(self, partition: TopicPartition, added_bytes: int) -> bool:
        """Close the open batch of a partition if it has no room for so many bytes more."""
        batch = self._open.get(partition)
        if batch is None or batch.size_bytes + added_bytes <= self._settings.batch_bytes:
            return False
        self._close(batch, is_full=True)
        return True

    def _close(self, batch: ProducerBatch, *, is_full: bool) -> None:
        del self._open[batch.partition]
        self._full.append(batch)
        self._choice.close_batch(batch.partition, batch.size_bytes, is_full=is_full)
