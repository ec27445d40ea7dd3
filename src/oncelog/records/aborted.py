"""What a reader of committed records leaves out of a Fetch answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from typing_extensions import Buffer

from oncelog.records.batch import BatchHeader
from oncelog.records.control import ControlType, read_control


class AbortedFilter:
    """Tells the batches of aborted transactions from the others, for the batches of one Fetch answer in their order.

    `aborted` is the answer's list of (producer id, first offset). A producer's data is dropped from the first offset on
    until its ABORT marker (KIP-98, Fetch v4). The list may come unsorted.
    """

    __slots__ = ("_dropped_producers", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        self._dropped_producers: set[int] = set()

    def drops(self, data: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the next batch, at `position` in `data`, holds data that was aborted.

        Raises CorruptBatchError for a control batch that cannot be read.
        """
        while self._upcoming and self._upcoming[0][1] <= header.last_offset:
            self._dropped_producers.add(self._upcoming.popleft()[0])
        if not header.is_transactional or header.producer_id not in self._dropped_producers:
            return False
        if not header.is_control:
            return True
        marker = read_control(data, position)
        if marker is not None and marker.control is ControlType.ABORT:
            self._dropped_producers.discard(header.producer_id)
        return False
