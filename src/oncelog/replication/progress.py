"""How far a follower has come, as its leader sees it in the follower's Fetch requests."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class FollowerProgress(NamedTuple):
    """Times are of the leader's clock that never goes back, in milliseconds.

    `broker_epoch` is that of the follower's last Fetch, -1 without one.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    """Where the leader's log ended at the last Fetch."""
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    broker_epoch: int = -1

    def fetched(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> FollowerProgress:
        """After a Fetch from `fetch_offset`, which is where the follower's log ends.

        It has caught up now if it asks from the leader's end. If it asks from where the leader's end was at its last Fetch, it
        had caught up then: else a follower that is never quite at the end of a busy log would fall out of sync.
        """
        caught_up_ms = self.last_caught_up_ms
        if fetch_offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        return FollowerProgress(
            fetch_offset,
            log_start_offset,
            max(leader_end_offset, self.last_fetch_leader_end_offset),
            now_ms,
            caught_up_ms,
            broker_epoch,
        )

    def under_leader_epoch(
        self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool
    ) -> FollowerProgress:
        """At the beginning of a leader epoch. One that is in sync has the whole time to show it.

        One that is not must hold back no high watermark, and must not be in sync again before it has fetched.
        """
        caught_up_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            return FollowerProgress(last_caught_up_ms=caught_up_ms)
        return self._replace(
            last_fetch_leader_end_offset=leader_end_offset, last_fetch_ms=caught_up_ms, last_caught_up_ms=caught_up_ms
        )

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms
