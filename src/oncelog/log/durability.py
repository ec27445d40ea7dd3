"""Recovery point and durable offset of one log, and the files to sync for the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oncelog.environment import Clock, Syncable
from oncelog.log.config import LogConfig
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.segments import Segments
from oncelog.log.write_ahead import Tail
from oncelog.records import CorruptBatchError, batches, crc_is_valid


class SyncPoint(NamedTuple):
    """The end of a log at the moment of a request to make it durable, and the number of truncations until then."""

    log_end_offset: int
    segment_base_offset: int
    segment_size_bytes: int
    truncations: int = 0


class _Joined(NamedTuple):
    log_end_offset: int
    release: Callable[[], None] | None


class LogDurability:
    """The log's own files are durable below `recovery_point`; below `durable_offset` they are, or the write-ahead log is.

    A log is not made durable by itself. Its owner syncs `unsynced_files()` and then calls `synced_up_to`, or writes
    `take_tail()` to a write-ahead log, syncs that, and calls `journaled_up_to`.

    The active segment's file is unsynced whenever the log goes on beyond the recovery point. The others are listed
    here, each with the end of the log at which it joined.

    A sync that was asked for before the log was cut back says nothing of the bytes that took the place of those that are gone.
    """

    __slots__ = (
        "_clock",
        "_files",
        "_last_flush_ms",
        "_limit",
        "_offsets",
        "_segments",
        "_taken",
        "_truncations",
        "config",
        "durable_offset",
        "is_closed",
        "on_acknowledged",
        "recovery_point",
    )

    def __init__(self, clock: Clock, config: LogConfig, offsets: LogOffsets, segments: Segments) -> None:
        self._clock = clock
        self._offsets = offsets
        self._segments = segments
        self._truncations = 0
        # From here on the log is about to be cut off.
        self._limit: int | None = None
        self._last_flush_ms = clock.now_ms()
        self._files: dict[Syncable, _Joined] = {}
        end = self.sync_point()
        # A segment's first bytes are synced with its name; what comes after them, a write-ahead log can keep.
        self._taken = end if end.segment_size_bytes else None
        self.config = config
        self.is_closed = False
        self.recovery_point = self.durable_offset = end.log_end_offset
        self.on_acknowledged: Callable[[], None] = lambda: None
        """Called when `acknowledged_offset` may have moved without an append."""

    @property
    def acknowledged_offset(self) -> int:
        """Below it, everything is as durable as flush.messages asks. Nobody reads beyond."""
        end = self._offsets.end
        is_enough = end - self.durable_offset < self.config.flush_messages
        return end if is_enough or self.is_closed else self.durable_offset

    @property
    def is_complete(self) -> bool:
        """True if everything that is in the log now would survive a power cut."""
        return self.is_closed or (self.durable_offset >= self._offsets.end and not self._files)

    @property
    def has_rolled(self) -> bool:
        """True if there is a sealed segment that is not durable in its own files."""
        return self.recovery_point < self._segments.active.base_offset and not self.is_closed

    def needs_flush(self, now_ms: int) -> bool:
        """True if flush.messages or flush.ms ask for a sync."""
        unsynced, config = self._offsets.end - self.durable_offset, self.config
        return unsynced > 0 and (unsynced >= config.flush_messages or now_ms - self._last_flush_ms >= config.flush_ms)

    def sync_point(self) -> SyncPoint:
        """The end of the log now, for `synced_up_to` or `journaled_up_to` later."""
        active = self._segments.active
        return SyncPoint(self._offsets.end, active.base_offset, active.size_bytes, self._truncations)

    def unsynced_files(self) -> tuple[Syncable, ...]:
        """The files to sync for everything that is in the log now to be durable in its own files."""
        if self.is_closed:
            return ()
        if self.recovery_point < self._offsets.end and self._segments.active.size_bytes:
            return (self._segments.active.file, *self._files)
        return self.files()

    def still_true(self, point: SyncPoint) -> SyncPoint | None:
        """The part of `point` that is still true of the log: less if it is about to be cut off; None if it was cut off since."""
        if point.truncations != self._truncations:
            return None
        return point if self._limit is None else point._replace(log_end_offset=min(point.log_end_offset, self._limit))

    def synced_up_to(self, point: SyncPoint) -> None:
        """The files of `unsynced_files()` are synced; `point` is the end of the log when they were asked for."""
        if not self.is_closed:
            self.take_synced(point)
            self.on_acknowledged()

    def take_synced(self, point: SyncPoint) -> None:
        """The same, and nobody is called."""
        known = self.still_true(point)
        if known is None:
            return
        self._take_durable(known)
        self.recovery_point = max(self.recovery_point, known.log_end_offset)
        if self._taken is None or self._taken < point:
            self._taken = point
        # A file that joined at that same end may have joined after the sync began.
        self._release([file for file, joined in self._files.items() if joined.log_end_offset < point.log_end_offset])

    def take_tail(self, size_bytes_max: int, *, is_doubtful: bool = False) -> tuple[Tail, SyncPoint] | None:
        """Take the bytes that a write-ahead log does not have yet, and the end of the log; None if files have to be synced instead.

        `is_doubtful`: the disk has failed, and may not give back what it was given.
        """
        active, taken = self._segments.active, self._taken
        is_enough = not self._files and self._limit is None
        if not is_enough or taken is None or taken.segment_base_offset != active.base_offset:
            return None
        start = taken.segment_size_bytes
        size_bytes = active.size_bytes - start
        if size_bytes > size_bytes_max:
            return None
        tail = Tail(active.base_offset, start, active.file.read(start, size_bytes) if size_bytes else b"")
        if is_doubtful and not _is_whole(tail.data, size_bytes):
            return None
        # It is durable only together with what the write-ahead log had before.
        end = self._taken = self.sync_point()
        return tail, end

    def journaled_up_to(self, point: SyncPoint) -> None:
        """The write-ahead log is durable, with every tail that was taken before `point`."""
        known = self.still_true(point)
        if known is not None:
            self._take_durable(known)
        self.on_acknowledged()

    def _take_durable(self, known: SyncPoint) -> None:
        self._last_flush_ms = self._clock.now_ms()
        self.durable_offset = max(self.durable_offset, known.log_end_offset)

    # --- the files that have to be synced

    def add(self, log_end_offset: int, file: Syncable, release: Callable[[], None] | None = None) -> None:
        """The file was written when the log ended at `log_end_offset`. When it is durable, `release` is called."""
        self._files[file] = _Joined(log_end_offset, release)

    def files(self) -> tuple[Syncable, ...]:
        return tuple(self._files)

    def drop(self, is_dropped: Callable[[Syncable, int], bool]) -> None:
        """Sync no more the files for which this is true, given the end of the log at which they joined."""
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

    # --- truncation

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
        self._truncations += 1
        self._limit = self._taken = None


def _is_whole(data: bytes, size_bytes: int) -> bool:
    """True if these are `size_bytes` of batches as they were written."""
    try:
        end = 0
        for position, header in batches(data):
            if not crc_is_valid(data, position, header):
                return False
            end = position + header.size_bytes
    except CorruptBatchError:
        return False
    return end == size_bytes
