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
        """The part of `point` that is still true of the log: less if it is about to be cut off; None if it was cut off since."""
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


class LogDurability:
    """A log is not made durable by itself. Its owner syncs `unsynced_files()` and then calls `synced_up_to`, or writes
    `take_tail()` to a write-ahead log, syncs that, and calls `journaled_up_to`.
    """

    __slots__ = ("_clock", "_offsets", "_segments", "_unsynced", "config", "on_acknowledged")

    def __init__(
        self, clock: Clock, config: LogConfig, offsets: LogOffsets, segments: Segments, unsynced: Unsynced
    ) -> None:
        self._clock = clock
        self._offsets = offsets
        self._segments = segments
        self._unsynced = unsynced
        self.config = config
        self.on_acknowledged: Callable[[], None] = lambda: None
        """Called when `acknowledged_offset` may have moved without an append."""

    @property
    def recovery_point(self) -> int:
        """Below it everything is durable in the log's own files."""
        return self._unsynced.recovery_point

    @property
    def acknowledged_offset(self) -> int:
        """Below it, everything is as durable as flush.messages asks. Nobody reads beyond."""
        return self._unsynced.acknowledged_offset(self._offsets.end, self.config)

    @property
    def is_complete(self) -> bool:
        """True if everything that is in the log now would survive a power cut."""
        unsynced = self._unsynced
        return unsynced.is_closed or (unsynced.durable_offset >= self._offsets.end and not unsynced.files())

    @property
    def has_rolled(self) -> bool:
        """True if there is a sealed segment that is not durable in its own files."""
        return self._unsynced.recovery_point < self._segments.active.base_offset and not self._unsynced.is_closed

    def needs_flush(self, now_ms: int) -> bool:
        """True if flush.messages or flush.ms ask for a sync."""
        return self._unsynced.needs_flush(self._offsets.end, now_ms, self.config)

    def sync_point(self) -> SyncPoint:
        """The end of the log now, for `synced_up_to` or `journaled_up_to` later."""
        active = self._segments.active
        return SyncPoint(self._offsets.end, active.base_offset, active.size_bytes, self._unsynced.truncations)

    def unsynced_files(self) -> tuple[Syncable, ...]:
        """The files to sync for everything that is in the log now to be durable in its own files."""
        unsynced = self._unsynced.files()
        if self._unsynced.is_closed:
            return ()
        if self._unsynced.recovery_point < self._offsets.end and self._segments.active.size_bytes:
            return (self._segments.active.file, *unsynced)
        return unsynced

    def still_true(self, point: SyncPoint) -> SyncPoint | None:
        """The point up to which a sync asked for at `point` makes the log durable; None if the log was cut off since."""
        return self._unsynced.still_true(point)

    def synced_up_to(self, point: SyncPoint) -> None:
        """The files of `unsynced_files()` are synced; `point` is where the log ended when they were asked for."""
        if self._unsynced.is_closed:
            return
        self._unsynced.synced_up_to(point, self._clock.now_ms())
        self.on_acknowledged()

    def take_tail(self, size_bytes_max: int, *, is_doubtful: bool = False) -> tuple[Tail, SyncPoint] | None:
        """Take the bytes that a write-ahead log does not have yet, and the end of the log; None if files have to be synced instead.

        `is_doubtful`: the disk has failed, and may not give back what it was given.
        """
        active = self._segments.active
        start = self._unsynced.tail_start(active.base_offset)
        if start is None or active.size_bytes - start > size_bytes_max:
            return None
        size_bytes = active.size_bytes - start
        tail = Tail(active.base_offset, start, active.take_end(start))
        if is_doubtful and not _is_whole(tail.data, size_bytes):
            return None
        end = self.sync_point()
        self._unsynced.tail_taken(end)
        return tail, end

    def journaled_up_to(self, point: SyncPoint) -> None:
        """The write-ahead log is durable, with every tail that was taken before `point`."""
        self._unsynced.journaled_up_to(point, self._clock.now_ms())
        self.on_acknowledged()


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
