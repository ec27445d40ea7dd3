"""Batches and records that a cleaning keeps (Kafka's Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo).

All of it works beside the event loop: it uses nothing but what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.log.compaction.offset_map import OffsetMap
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.producers import ProducerStateEntry
from oncelog.log.scan import ScannedBatch
from oncelog.records import BatchHeader, ControlType, EndTransactionMarker, read_control, read_header
from oncelog.records.kept import KeyedRecord, body_of, keyed_records, with_records, without_records


class CleanedTransactions:
    """Is told of every batch in the order of the log."""

    __slots__ = ("_aborted", "_committed", "_met", "_upcoming", "indexed")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are the transactions with records in the part of the log that is read."""
        self._upcoming = [(one.first_offset, one) for one in aborted]
        heapify(self._upcoming)
        # By producer: aborted transactions that have begun, those of them with batches left, and others with batches left.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self.indexed: list[AbortedTransaction] = []
        """The aborted transactions of which batches are left: readers have to be told of them."""

    def take_batch(self, header: BatchHeader) -> bool:
        """Note a batch of data; return whether it was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def take_marker(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Note a control batch; return whether it ends a transaction of which nothing is left."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if marker is None:
            return False
        if marker.control is ControlType.COMMIT:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_needed
        aborted = self._aborted.pop(producer_id, None)
        is_needed = producer_id in self._met
        self._met.discard(producer_id)
        if aborted is not None and is_needed:
            self.indexed.append(aborted)
        return not is_needed

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, aborted = heappop(self._upcoming)
            self._aborted.setdefault(aborted.producer_id, aborted)


class HeaderCheck:
    """Is told of every batch in the order of the log."""

    __slots__ = ("_epochs", "_last_epoch")

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._last_epoch = -1

    def problem(self, header: BatchHeader, end_offset: int) -> str | None:
        """The fault of a header in a segment that ends at `end_offset`; None if there is none.

        The reader has seen already that no batch begins before the end of the one in front of it.
        """
        if header.next_offset > end_offset:
            return f"the offset is {header.base_offset}"
        epoch, written = header.leader_epoch, self._epochs.epoch_of(header.base_offset)
        if written not in (-1, epoch):
            return f"the leader epoch is {epoch}, and {written} wrote that offset"
        if not self._last_epoch <= epoch <= self._epochs.latest:
            return f"the leader epoch is {epoch}, after {self._last_epoch} and with {self._epochs.latest} as the latest"
        self._last_epoch = epoch
        return None


class LastRecord(NamedTuple):
    """The record of a producer that has to stay: the batch with its last data, or without one, a marker with its epoch."""

    data_offset: int | None
    epoch: int


def last_records_of(producers: Iterable[ProducerStateEntry]) -> dict[int, LastRecord]:
    return {
        one.producer_id: LastRecord(one.batches[-1].last_offset if one.batches else None, one.epoch)
        for one in producers
    }


class KeptBatch(NamedTuple):
    """A batch as it is from now on."""

    header: BatchHeader
    data: Buffer


class BatchFilter:
    def __init__(
        self,
        last_offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._last_offsets = last_offsets
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms

    def kept(self, batch: ScannedBatch, end_offset: int) -> KeptBatch | None:
        """The part of a batch that stays. The one that reaches `end_offset` stays, if need be without records: so no segment ends
        before the next one begins.

        Raises RecordsError for records that cannot be read.
        """
        header = batch.header
        keeps_empty = header.next_offset == end_offset or (
            header.producer_id >= 0 and self._is_last_of_producer(header)
        )
        if header.is_control:
            return self._kept_marker(batch, keeps_empty=keeps_empty)
        if self._transactions.take_batch(header):
            return _emptied(header) if keeps_empty else None
        body = body_of(header, batch.data, batch.position_in_data)
        records = keyed_records(header, body)
        kept = [record for record in records if self._keeps(header, record)]
        if not kept:
            return _emptied(header) if keeps_empty else None
        new_horizon_ms = None
        if header.delete_horizon_ms is None and not all(record.has_value for record in kept):
            new_horizon_ms = self._new_horizon_ms
        if len(kept) == len(records) and new_horizon_ms is None:
            return _unchanged(batch)
        return _rewritten(with_records(header, body, kept, new_horizon_ms))

    def _kept_marker(self, batch: ScannedBatch, *, keeps_empty: bool) -> KeptBatch | None:
        """A marker stays while a batch of its transaction does, and then until its delete horizon (KIP-534)."""
        header = batch.header
        marker = read_control(batch.data, batch.position_in_data)
        is_over = self._transactions.take_marker(header, marker)
        horizon_ms = header.delete_horizon_ms
        is_removed = is_over and horizon_ms is not None and horizon_ms <= self._now_ms
        if is_removed or header.record_count == 0:
            return _emptied(header) if keeps_empty else None
        if not is_over or horizon_ms is not None:
            return _unchanged(batch)
        body = body_of(header, batch.data, batch.position_in_data)
        return _rewritten(with_records(header, body, keyed_records(header, body), self._new_horizon_ms))

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.data_offset

    def _keeps(self, header: BatchHeader, record: KeyedRecord) -> bool:
        offset = header.base_offset + record.offset_delta
        if offset > self._last_offsets.latest_offset:
            return True
        if record.key is None or offset < self._last_offsets.get(record.key):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.has_value or horizon_ms is None or self._now_ms < horizon_ms


def _unchanged(batch: ScannedBatch) -> KeptBatch:
    start = batch.position_in_data
    return KeptBatch(batch.header, memoryview(batch.data)[start : start + batch.header.size_bytes])


def _emptied(header: BatchHeader) -> KeptBatch:
    return _rewritten(without_records(header))


def _rewritten(data: bytes) -> KeptBatch:
    return KeptBatch(read_header(data), data)
