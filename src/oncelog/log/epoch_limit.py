"""Whether a batch has a leader epoch that there was. The CRC-32C covers nothing of it: followers take batches as they are."""

from __future__ import annotations

from oncelog.log.config import EPOCH_MIN
from oncelog.log.damage import UnknownEpochError
from oncelog.log.segment import Segment
from oncelog.records import BatchHeader


def check_epoch(segment: Segment, position: int, header: BatchHeader, leader_epoch_max: int) -> None:
    """Raises UnknownEpochError."""
    epoch = header.leader_epoch
    if not EPOCH_MIN <= epoch <= leader_epoch_max:
        reason = f"the leader epoch is {epoch}, and there were {leader_epoch_max + 1}"
        raise UnknownEpochError(segment.damaged(position, header.base_offset, reason), epoch)
