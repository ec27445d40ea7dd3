"""Truncation of a follower's log where it diverges from its leader's (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

NO_EPOCH = -1
NO_OFFSET = -1


class FollowedLog(Protocol):
    """The part of `PartitionLog` that the rules need."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def durable_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def newest_epoch(self) -> int: ...

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]: ...


class EpochEnd(NamedTuple):
    """A leader epoch and where it ends, as OffsetForLeaderEpoch and the diverging epoch of a Fetch tell it; -1 if unknown."""

    epoch: int
    end_offset: int


class Truncation(NamedTuple):
    """The offset at which the follower's log is cut off. If it is not complete, it asks the leader about its newest epoch again."""

    offset: int
    is_complete: bool


def truncation(log: FollowedLog, told: EpochEnd, fetch_offset: int) -> Truncation:
    """How far the follower's log goes back when the leader has answered this about the follower's newest epoch.

    KIP-279: if the leader does not know the epoch, it tells the largest one below it. If the follower does not know that one
    either, it goes back to where its own largest one below ends, and asks again.
    """
    end = log.log_end_offset
    if told.end_offset == NO_OFFSET:
        return Truncation(min(fetch_offset, end), is_complete=True)
    if told.epoch == NO_EPOCH:
        return Truncation(min(told.end_offset, end), is_complete=True)
    own_epoch, own_end_offset = log.epoch_end_offset(told.epoch)
    if own_epoch == NO_EPOCH:
        return Truncation(min(told.end_offset, end), is_complete=True)
    if own_epoch != told.epoch:
        return Truncation(min(own_end_offset, end), is_complete=False)
    return Truncation(min(own_end_offset, told.end_offset, end), is_complete=True)
