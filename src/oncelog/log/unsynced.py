"""What of a log is not durable yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oncelog.environment import Syncable
from oncelog.log.config import LogConfig


class SyncPoint(NamedTuple):
    """Where a log ended when somebody asked for it to be durable, and how often it had been cut back by then."""

    log_end_offset: int
    segment_base_offset: int
    segment_size_bytes: int
    truncations: int = 0


class _Joined(NamedTuple):
    log_end_offset: int
    release: Callable[[], None] | None


class Unsynced:
    """Below `recovery_point` the log's own files are durable; below `durable_offset` they are, or the write-ahead log is.

    The active segment's file is unsynced whenever the log goes on beyond the recovery point. The others are listed
    here, each with the end of the log at which it joined.

    What was asked for before the log was cut back says nothing of what has taken the place of the bytes that are gone.
    """

    __slots__ = (
        "_files",
        "_last_flush_ms",
        "_limit",
        "_taken",
        "durable_offset",
        "is_closed",
        "recovery_point",
        "truncations",
    )

    def __init__(self, end: SyncPoint, now_ms: int) -> None:
        self.recovery_point = self.durable_offset = end.log_end_offset
        self.is_closed = False
        self.truncations = end.truncations
        # From here on the log is about to be cut off.
        self._limit: int | None = None
        self._last_flush_ms = now_ms
        self._files: dict[Syncable, _Joined] = {}
        # A segment's first bytes are synced with its name; what comes after them, a write-ahead log can keep.
        self._taken = end if end.segment_size_bytes else None

    def add(self, log_end_offset: int, file: Syncable, release: Callable[[], None] | None = None) -> None:
        """The file was written when the log ended at `log_end_offset`. When it is durable, `release` is called."""
        self._files[file] = _Joined(log_end_offset, release)

    def files(self) -> tuple[Syncable, ...]:
        return tuple(self._files)

    def tail_start(self, segment_base_offset: int) -> int | None:
        """From which byte of the active segment on a write-ahead log would have to take it; None if that is not enough."""
        taken = self._taken
        if self._files or taken is None or self._limit is not None or taken.segment_base_offset != segment_base_offset:
            return None
        return taken.segment_size_bytes

    def tail_taken(self, point: SyncPoint) -> None:
        """The write-ahead log has everything up to here, and is durable only together with what it had before."""
        self._taken = point

    def still_true(self, point: SyncPoint) -> SyncPoint | None:
        """What a sync that was asked for at `point` says of the log, which may be about to be cut off; None if it was since."""
        if point.truncations != self.truncations:
            return None
        return point if self._limit is None else point._replace(log_end_offset=min(point.log_end_offset, self._limit))

    def journaled_up_to(self, point: SyncPoint, now_ms: int) -> None:
        """The write-ahead log is durable with everything that was there at `point`."""
        known = self.still_true(point)
        if known is not None:
            self._last_flush_ms = now_ms
            self.durable_offset = max(self.durable_offset, known.log_end_offset)

    def synced_up_to(self, point: SyncPoint, now_ms: int) -> None:
        """Everything that was there at `point` is durable in the log's own files."""
        known = self.still_true(point)
        if known is None:
            return
        self.journaled_up_to(point, now_ms)
        self.recovery_point = max(self.recovery_point, known.log_end_offset)
        if self._taken is None or self._taken < point:
            self._taken = point
        # A file that joined at that same end may have joined after the sync began.
        self._release([file for file, joined in self._files.items() if joined.log_end_offset < point.log_end_offset])

    def needs_flush(self, log_end_offset: int, now_ms: int, config: LogConfig) -> bool:
        unsynced = log_end_offset - self.durable_offset
        return unsynced > 0 and (unsynced >= config.flush_messages or now_ms - self._last_flush_ms >= config.flush_ms)

    def acknowledged_offset(self, log_end_offset: int, config: LogConfig) -> int:
        """Below it, everything is as durable as flush.messages asks."""
        is_enough = log_end_offset - self.durable_offset < config.flush_messages
        return log_end_offset if is_enough or self.is_closed else self.durable_offset

    def limit(self, offset: int) -> None:
        """From `offset` on nothing counts as durable any more, whatever is synced, until the log is cut off there."""
        self.truncate(offset)
        self._limit = offset

    def lift_limit(self) -> None:
        """The log is cut off where it was to be."""
        if self._limit is not None:
            self.truncate(self._limit)

    def truncate(self, offset: int) -> None:
        """The log ends at `offset`."""
        self.recovery_point = min(self.recovery_point, offset)
        self.durable_offset = min(self.durable_offset, offset)
        self.truncations += 1
        self._limit = self._taken = None

    def drop(self, is_dropped: Callable[[Syncable, int], bool]) -> None:
        """Sync those files no more of which, and the end of the log at which they joined, that is true."""
        self._release([file for file, joined in self._files.items() if is_dropped(file, joined.log_end_offset)])

    def forget_files(self) -> None:
        """The log goes on in copies of its files."""
        self._release(list(self._files))

    def close(self) -> None:
        """Nobody will sync these files any more."""
        self.is_closed = True
        self._release(list(self._files))

    def _release(self, files: Iterable[Syncable]) -> None:
        for file in files:
            release = self._files.pop(file).release
            if release is not None:
                release()
