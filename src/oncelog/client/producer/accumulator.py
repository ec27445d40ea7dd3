"""What a producer was given and has not sent: the open batch of each partition, and full ones in their order."""

from __future__ import annotations

from collections import deque

from oncelog.client.producer.open_batch import OpenBatch, size_bytes
from oncelog.client.producer.partition_choice import PartitionChoice
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import TopicPartition
from oncelog.records import HEADER_BYTES, Record

RECORD_BYTES_MAX = 2**31 - 1 - HEADER_BYTES
"""The length of a batch is an int32."""


class RecordAccumulator:
    """A batch is open until it has no room for the next record, has waited for `linger_ms`, or is to be sent now."""

    def __init__(self, settings: ProducerSettings, choice: PartitionChoice) -> None:
        self.size_bytes = 0
        """Of all records in it."""
        self.sends_now = False
        """Whether what is there is sent without waiting for more."""
        self._settings = settings
        self._choice = choice
        self._open: dict[TopicPartition, OpenBatch] = {}
        self._full: deque[OpenBatch] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._full

    @property
    def record_count(self) -> int:
        return sum(len(batch.records) for batch in (*self._full, *self._open.values()))

    def place(self, topic: str, record: Record) -> TopicPartition:
        """Where a record goes for which the partitioner makes no choice.

        A full batch ends its partition's turn: the record that has no room in it begins no other batch there.
        """
        added_bytes = size_bytes(record)
        while True:
            partition = TopicPartition(topic, self._choice.sticky(topic))
            if not self._close_if_full(partition, added_bytes):
                return partition

    def append(self, partition: TopicPartition, record: Record, now_ms: float) -> tuple[OpenBatch, int]:
        """Put a record into the open batch of its partition; return the batch and the record's place in it.

        Raises ValueError when no batch can hold the record.
        """
        added_bytes = size_bytes(record)
        if added_bytes > RECORD_BYTES_MAX:
            raise ValueError(f"a record has at most {RECORD_BYTES_MAX} bytes, and this one has about {added_bytes}")
        self._close_if_full(partition, added_bytes)
        batch = self._open.get(partition)
        if batch is None:
            batch = OpenBatch(partition, now_ms)
        place = batch.append(record, added_bytes)
        self._open[partition] = batch
        self.size_bytes += added_bytes
        return batch, place

    def holds(self, record: Record) -> bool:
        """Whether this very record is in it."""
        return any(held is record for batch in (*self._full, *self._open.values()) for held in batch.records)

    def close_ripe(self, now_ms: float) -> float | None:
        """Close every batch that has waited long enough; return how long the next one may still wait."""
        linger_ms = self._settings.linger_ms
        for batch in list(self._open.values()):
            if self.sends_now or now_ms - batch.first_ms >= linger_ms:
                self._close(batch, is_full=False)
        left_ms = [batch.first_ms + linger_ms - now_ms for batch in self._open.values()]
        return min(left_ms, default=None)

    def take_full(self) -> OpenBatch | None:
        """The next batch to be sent."""
        if not self._full:
            return None
        batch = self._full.popleft()
        self.size_bytes -= batch.size_bytes - HEADER_BYTES
        return batch

    def take_all(self) -> list[OpenBatch]:
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

    def _close(self, batch: OpenBatch, *, is_full: bool) -> None:
        del self._open[batch.partition]
        self._full.append(batch)
        self._choice.close_batch(batch.partition, batch.size_bytes, is_full=is_full)
