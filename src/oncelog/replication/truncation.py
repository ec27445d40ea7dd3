"""Divergence of a follower's log from its leader's, and its truncation (KIP-101, KIP-279, KIP-595).

Both sides are here: the leader's answer, and how far the follower goes back for it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from oncelog.wire import ErrorCode

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


def divergence(log: FollowedLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | ErrorCode:
    """The leader's side of a Fetch v12: the epoch in which the follower's log parts from this one, or NONE.

    OFFSET_OUT_OF_RANGE where that cannot be told, and for an offset that is outside the log.
    """
    if last_fetched_epoch != NO_EPOCH:
        epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == NO_OFFSET or fetch_offset < log.log_start_offset:
            return ErrorCode.offset_out_of_range
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return EpochEnd(epoch, end_offset)
    return (
        ErrorCode.none if log.log_start_offset <= fetch_offset <= log.log_end_offset else ErrorCode.offset_out_of_range
    )


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
