"""Which segments a log no longer has to keep, and how they go."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.config import LogConfig
from oncelog.log.damage import DamagedLogError
from oncelog.log.log_compaction import LogCompaction
from oncelog.log.log_files import LogFiles
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.segment import Segment
from oncelog.log.timestamps import check_times


class LogRetention:
    """The log begins behind its oldest segments first. They are deleted once a checkpoint says so."""

    __slots__ = ("_compaction", "_files", "_offsets")

    def __init__(self, files: LogFiles, offsets: LogOffsets, compaction: LogCompaction) -> None:
        self._files = files
        self._offsets = offsets
        self._compaction = compaction

    def expired(self, now_ms: int) -> int:
        """How many of the oldest segments are no longer kept."""
        return _expired(self._files.segments, self._files.config, self._offsets, now_ms)

    def leave_expired(self, now_ms: int) -> None:
        """Begin the log behind the segments that are no longer kept."""
        count = self.expired(now_ms)
        if count == len(self._files.segments):
            self._files.roll(now_ms)
        self._offsets.advance_start(self._files.segments[count].base_offset)

    @property
    def has_left(self) -> bool:
        """Whether there are segments that the log begins behind."""
        return self._files.segments.slot_of(self._offsets.start) > 0

    def delete_left(self, offset: int) -> int:
        """Delete the segments that end below `offset`, and that the log begins behind; return how many.

        A checkpoint says already that it begins there, or later: a start takes a file that is gone for a loss.
        """
        count = self._files.segments.slot_of(min(offset, self._offsets.start))
        if count:
            self._compaction.drop()
            self._files.delete_first(count)
        return count


def _expired(segments: Sequence[Segment], config: LogConfig, offsets: LogOffsets, now_ms: int) -> int:
    """How many of the oldest segments may go: too old, too many bytes, or below the start of the log.

    Never one with an offset at or above the high watermark, and an empty last one stays.
    """
    surplus_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    ends = [*(segment.base_offset for segment in segments[1:]), offsets.end]
    for slot, (segment, end_offset) in enumerate(zip(segments, ends, strict=True)):
        is_empty_last = segment.size_bytes == 0 and slot + 1 == len(segments)
        is_old = (
            config.retention_ms >= 0 and segment.size_bytes > 0 and _is_older(segment, now_ms - config.retention_ms)
        )
        is_surplus = config.retention_bytes >= 0 and surplus_bytes >= segment.size_bytes
        is_before_start = end_offset <= offsets.start
        if is_empty_last or end_offset > offsets.high_watermark or not (is_old or is_surplus or is_before_start):
            return slot
        surplus_bytes -= segment.size_bytes
    return len(segments)


def _is_older(segment: Segment, time_ms: int) -> bool:
    """Whether all of a segment is from before a time; not if that cannot be told."""
    if _age_from_ms(segment) >= time_ms:
        return False
    try:
        check_times(segment)
    except DamagedLogError:
        return False
    return _age_from_ms(segment) < time_ms


def _age_from_ms(segment: Segment) -> int:
    largest_ms, _ = segment.max_timestamp
    return largest_ms if largest_ms >= 0 else segment.modified_ms()
