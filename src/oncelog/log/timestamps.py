"""Finding records by their timestamps."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.config import LONG_MAX
from oncelog.log.outcome import TimestampOffset
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment
from oncelog.log.time_index import NO_TIMESTAMP
from oncelog.records import Record, RecordsError, decode_batch

CHECKED_BYTES = 1024 * 1024


def check_times(segment: Segment) -> None:
    """Make the indexes anew if a batch is later than they say, as far as a few headers tell. Raises DamagedLogError.

    Ask it before records are passed over or deleted for their age: an index that lost its last entries makes them older.
    """
    if segment.are_times_checked:
        return
    segment.are_times_checked = True
    if segment.size_bytes and not _is_latest(segment, *segment.max_timestamp):
        segment.rebuild_indexes()


def _is_latest(segment: Segment, timestamp_ms: int, offset: int) -> bool:
    """Whether a batch has this timestamp, and none behind it a later one."""
    position = 0
    if timestamp_ms != NO_TIMESTAMP:
        found = segment.position_of(offset)
        if found is None or found.header.max_timestamp_ms != timestamp_ms:
            return False
        position = found.position
    for batch in segment.scan(position, segment.base_offset, check_crc=False):
        if batch.header.max_timestamp_ms > timestamp_ms:
            return False
        if batch.position - position > CHECKED_BYTES:
            break
    return True


def _floor(segment: Segment, timestamp_ms: int) -> int:
    """An offset before which no record has a timestamp as late as `timestamp_ms`."""
    entry = segment.indexes.times.floor(timestamp_ms)
    if entry is not None:
        found = segment.position_of(entry[1])
        if found is None or found.header.max_timestamp_ms != entry[0]:
            segment.rebuild_indexes()
            entry = segment.indexes.times.floor(timestamp_ms)
    return segment.base_offset if entry is None else entry[1]


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, first_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record in [first offset, limit) whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp[0] < timestamp_ms:
            check_times(segment)
        if segment.max_timestamp[0] < timestamp_ms:
            continue
        for batch in segment.batches_from(max(_floor(segment, timestamp_ms), first_offset)):
            header = batch.header
            if header.base_offset >= limit_offset:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.is_control:
                continue
            for record in _records(segment, batch):
                if record.timestamp_ms >= timestamp_ms and record.offset >= first_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset) if record.offset < limit_offset else None
    return None


def latest(segments: Sequence[Segment], first_offset: int) -> TimestampOffset | None:
    """The first record from `first_offset` on that has the largest timestamp; None if no record has one."""
    for segment in segments:
        check_times(segment)
    following = [*(segment.base_offset for segment in segments[1:]), LONG_MAX]
    left = [segment for segment, end in zip(segments, following, strict=True) if end > first_offset]
    largest_ms, found = NO_TIMESTAMP, left[0]
    # What an index says is no more than a bound: a cleaning may have emptied the batch that it is about.
    for segment in sorted(left, key=lambda segment: -segment.max_timestamp[0]):
        if segment.max_timestamp[0] < largest_ms:
            break
        timestamp_ms = _latest_from(segment, first_offset)
        if (timestamp_ms, -segment.base_offset) > (largest_ms, -found.base_offset):
            largest_ms, found = timestamp_ms, segment
    if largest_ms == NO_TIMESTAMP:
        return None
    known_ms, offset = found.max_timestamp
    start = max(offset, first_offset) if known_ms == largest_ms else first_offset
    for batch in found.batches_from(start):
        for record in _records(found, batch):
            if record.timestamp_ms == largest_ms and record.offset >= first_offset:
                return TimestampOffset(largest_ms, record.offset)
    return None


def _latest_from(segment: Segment, first_offset: int) -> int:
    """The largest timestamp of the records from `first_offset` on; NO_TIMESTAMP if there is none."""
    largest_ms, last_offset = segment.max_timestamp
    if largest_ms == NO_TIMESTAMP:
        return NO_TIMESTAMP
    known = segment.position_of(last_offset)
    if known is not None and known.header.base_offset >= first_offset and known.header.record_count:
        return largest_ms
    # What had it may be gone: the indexes do not tell what comes next.
    return max(
        (_latest_in(segment, batch, first_offset) for batch in segment.batches_from(first_offset)), default=NO_TIMESTAMP
    )


def _latest_in(segment: Segment, batch: ScannedBatch, first_offset: int) -> int:
    if batch.header.base_offset >= first_offset and batch.header.record_count:
        return batch.header.max_timestamp_ms
    records = _records(segment, batch)
    return max((record.timestamp_ms for record in records if record.offset >= first_offset), default=NO_TIMESTAMP)


def _records(segment: Segment, batch: ScannedBatch) -> list[Record]:
    """Raises DamagedLogError for a batch whose checksum is right, and whose records nobody can read."""
    try:
        return decode_batch(batch.data, batch.position_in_data)
    except RecordsError as error:
        raise segment.damaged(batch.position, batch.header.base_offset, str(error)) from error
