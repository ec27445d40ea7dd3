"""What is to be done to the log of a partition that follows its leader. Whoever has the log takes the steps, one by one."""

from __future__ import annotations

from typing import NamedTuple


class Append(NamedTuple):
    """Append the records with `PartitionLog.append_as_follower`."""

    records: bytes


class AdvanceHighWatermark(NamedTuple):
    offset: int


class AdvanceLogStart(NamedTuple):
    offset: int


class Truncate(NamedTuple):
    """Cut the log off. If that `is_complete`, it has nothing then that the leader's has not; else the leader is asked again.

    One below the high watermark is for a leader that was elected without having been in sync.
    """

    offset: int
    is_complete: bool
    is_below_high_watermark: bool


class BeginAgain(NamedTuple):
    """Be an empty log that begins at the offset."""

    offset: int


class AskOffsets(NamedTuple):
    """Ask the leader under this epoch where its log ends and where it begins (ListOffsets LATEST and EARLIEST)."""

    leader_epoch: int


Step = Append | AdvanceHighWatermark | AdvanceLogStart | Truncate | BeginAgain | AskOffsets
