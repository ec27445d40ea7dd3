"""Which transactions a cleaning meets, and whether their markers are still needed (Kafka's CleanedTransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from oncelog.log.outcome import AbortedTransaction
from oncelog.records import BatchHeader, ControlType, EndTransactionMarker


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
