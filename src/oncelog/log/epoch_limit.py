"""Whether a batch has a leader epoch that there was. The CRC-32C covers nothing of it: followers take batches as they are."""

from __future__ import annotations

from oncelog.log.checkpoints import EpochStart
from oncelog.log.config import EPOCH_MIN
from oncelog.log.damage import DamagedLogError, UnknownEpochError
from oncelog.log.names import LEADER_EPOCHS
from oncelog.log.segment import Segment
from oncelog.records import BatchHeader


def check_epoch(segment: Segment, position: int, header: BatchHeader, leader_epoch_max: int) -> None:
    """Raises UnknownEpochError."""
    epoch = header.leader_epoch
    if not EPOCH_MIN <= epoch <= leader_epoch_max:
        raise UnknownEpochError(segment.damaged(position, header.base_offset, _reason(epoch, leader_epoch_max)), epoch)


def epoch_beyond(segment: Segment, directory: str, noted: EpochStart, leader_epoch_max: int) -> UnknownEpochError:
    """The damage of a log that has noted an epoch beyond those that there were: of its batch, or of the note alone."""
    reason = _reason(noted.epoch, leader_epoch_max)
    found = segment.position_of(noted.start_offset)
    if found is not None and found.header.leader_epoch == noted.epoch:
        damage = segment.damaged(found.position, found.header.base_offset, reason)
    else:
        damage = DamagedLogError(f"{directory}/{LEADER_EPOCHS} is damaged at offset {noted.start_offset}: {reason}")
    return UnknownEpochError(damage, noted.epoch)


def _reason(epoch: int, leader_epoch_max: int) -> str:
    return f"the leader epoch is {epoch}, and there were {leader_epoch_max + 1}"
