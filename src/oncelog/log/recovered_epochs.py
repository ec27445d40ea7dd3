"""Which leader epoch began where, as a start finds it in the checkpoint and in the batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import EpochStart, read_epoch_starts
from oncelog.log.epoch_limit import check_epoch
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.names import LEADER_EPOCHS
from oncelog.log.segment import Segment


class RecoveredEpochs(NamedTuple):
    """`are_rebuilt`: the checkpoint had none, and every batch was read for them. `are_in_file`: it has just these."""

    epochs: LeaderEpochs
    are_rebuilt: bool
    are_in_file: bool


def recovered_epochs(
    disk: Disk,
    directory: str,
    segments: Sequence[Segment],
    read: LeaderEpochs,
    log_start_offset: int,
    log_end_offset: int,
    leader_epoch_max: int,
) -> RecoveredEpochs:
    """Put the epochs of the batches that were `read` behind those of the checkpoint, which may miss the last ones.

    A checkpoint with an epoch that there was not makes no sense. Raises UnknownEpochError for a batch with one.
    """
    in_file = _epochs_in_file(disk, directory, leader_epoch_max)
    epochs, are_rebuilt = LeaderEpochs(in_file or ()), False
    # The file is first written with the first batch, and durable together with it.
    if not in_file and (not read.starts or read.starts[0].start_offset > log_start_offset):
        _assign_all(epochs, segments, leader_epoch_max)
        are_rebuilt = bool(epochs.starts)
    for start in read.starts:
        epochs.assign(start.epoch, start.start_offset)
    epochs.truncate_end(log_end_offset)
    return RecoveredEpochs(epochs, are_rebuilt, list(epochs.starts) == in_file)


def _assign_all(epochs: LeaderEpochs, segments: Sequence[Segment], leader_epoch_max: int) -> None:
    """An epoch begins where the batch before it ends, the first one where the log does."""
    taken_to = segments[0].base_offset
    for segment in segments:
        for batch in segment.scan(0, segment.base_offset, check_crc=False):
            check_epoch(segment, batch.position, batch.header, leader_epoch_max)
            epochs.assign(batch.header.leader_epoch, taken_to)
            taken_to = batch.header.next_offset


def _epochs_in_file(disk: Disk, directory: str, leader_epoch_max: int) -> list[EpochStart] | None:
    """What the checkpoint says; None if it makes no sense."""
    try:
        found = read_epoch_starts(disk, f"{directory}/{LEADER_EPOCHS}")
    except DiskError:
        return None
    in_order = all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(found))
    return found if in_order and all(0 <= one.epoch <= leader_epoch_max for one in found) else None
