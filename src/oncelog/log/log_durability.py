"""What makes one log durable asks it, and tells it: syncs of its own files, and a write-ahead log that takes its end."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.environment import Clock, Syncable
from oncelog.log.config import LogConfig
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.segments import Segments
from oncelog.log.unsynced import SyncPoint, Unsynced
from oncelog.log.write_ahead import Tail
from oncelog.records import CorruptBatchError, batches, crc_is_valid


class LogDurability:
    """A log is not durable by itself: whoever needs that syncs `unsynced_files()` and then says `synced_up_to`, or brings
    `take_tail()` to a write-ahead log, syncs that, and says `journaled_up_to`.
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
        """Whether everything that is in the log now would survive a power cut."""
        unsynced = self._unsynced
        return unsynced.is_closed or (unsynced.durable_offset >= self._offsets.end and not unsynced.files())

    @property
    def has_rolled(self) -> bool:
        """Whether there is a sealed segment that is not durable in its own files."""
        return self._unsynced.recovery_point < self._segments.active.base_offset and not self._unsynced.is_closed

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a sync."""
        return self._unsynced.needs_flush(self._offsets.end, now_ms, self.config)

    def sync_point(self) -> SyncPoint:
        """Where the log ends now, for `synced_up_to` or `journaled_up_to` later."""
        active = self._segments.active
        return SyncPoint(self._offsets.end, active.base_offset, active.size_bytes, self._unsynced.truncations)

    def unsynced_files(self) -> tuple[Syncable, ...]:
        """What has to be synced for everything that is in the log now to be durable in its own files."""
        unsynced = self._unsynced.files()
        if self._unsynced.is_closed:
            return ()
        if self._unsynced.recovery_point < self._offsets.end and self._segments.active.size_bytes:
            return (self._segments.active.file, *unsynced)
        return unsynced

    def still_true(self, point: SyncPoint) -> SyncPoint | None:
        """What may be said to be durable after a sync that was asked for at `point`; None if the log was cut back since."""
        return self._unsynced.still_true(point)

    def synced_up_to(self, point: SyncPoint) -> None:
        """The files of `unsynced_files()` are synced; `point` is where the log ended when they were asked for."""
        if self._unsynced.is_closed:
            return
        self._unsynced.synced_up_to(point, self._clock.now_ms())
        self.on_acknowledged()

    def take_tail(self, size_bytes_max: int, *, is_doubtful: bool = False) -> tuple[Tail, SyncPoint] | None:
        """What a write-ahead log has not taken yet, for it to take now, and where the log ends; None if files have to be synced
        instead.

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
    """Whether these are so many bytes of batches as they were written."""
    try:
        end = 0
        for position, header in batches(data):
            if not crc_is_valid(data, position, header):
                return False
            end = position + header.size_bytes
    except CorruptBatchError:
        return False
    return end == size_bytes
