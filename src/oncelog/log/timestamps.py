"""Finding records by their timestamps."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.outcome import TimestampOffset
from oncelog.log.segment import Segment
from oncelog.log.time_index import NO_TIMESTAMP
from oncelog.records import decode_batch


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, first_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record in [first offset, limit) whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp[0] < timestamp_ms:
            continue
        for batch in segment.batches_from(max(segment.time_index.floor(timestamp_ms), first_offset)):
            header = batch.header
            if header.base_offset >= limit_offset:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.is_control:
                continue
            for record in decode_batch(batch.data, batch.position_in_data):
                if record.timestamp_ms >= timestamp_ms and record.offset >= first_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset) if record.offset < limit_offset else None
    return None


def latest(segments: Sequence[Segment], first_offset: int) -> TimestampOffset | None:
    """The first record that has the largest timestamp; None if no record has one."""
    largest_ms = max(segment.max_timestamp[0] for segment in segments)
    if largest_ms == NO_TIMESTAMP:
        return None
    segment = next(segment for segment in segments if segment.max_timestamp[0] == largest_ms)
    for batch in segment.batches_from(max(segment.max_timestamp[1], first_offset)):
        for record in decode_batch(batch.data, batch.position_in_data):
            if record.timestamp_ms == largest_ms:
                return TimestampOffset(largest_ms, record.offset)
    return None
