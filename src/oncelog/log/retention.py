"""Which segments a log no longer has to keep."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.config import LogConfig
from oncelog.log.damage import DamagedLogError
from oncelog.log.log_offsets import LogOffsets
from oncelog.log.segment import Segment
from oncelog.log.timestamps import check_times


def expired(segments: Sequence[Segment], config: LogConfig, offsets: LogOffsets, now_ms: int) -> int:
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
