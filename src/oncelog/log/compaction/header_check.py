"""What of a batch its CRC-32C does not cover: the leader epoch, and the base offset.

A cleaning writes batches anew. What it copied would be the only copy, and a repair of the old one would come too late.
"""

from __future__ import annotations

from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.records import BatchHeader


class HeaderCheck:
    """Is told of every batch in the order of the log."""

    __slots__ = ("_epochs", "_last_epoch")

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._last_epoch = -1

    def problem(self, header: BatchHeader, end_offset: int) -> str | None:
        """What cannot be right in a segment that ends at `end_offset`; None if nothing is.

        That a batch does not begin before the one in front of it ends, whoever reads them has seen.
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
