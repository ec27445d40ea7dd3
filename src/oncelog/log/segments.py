"""The segments of one log, and reading across them: by offset and by timestamp."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from oncelog.log.config import EPOCH_MIN, LONG_MAX
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.outcome import AbortedTransaction, LogSlice, TimestampOffset
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment
from oncelog.records import Record, RecordsError, decode_batch

POSITIONS_KEPT = 64


class ReadPositions:
    """A reader that goes on where it ended needs no look at an index, and what has come since is known without one."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, tuple[Segment, int]] = {}

    def keep(self, offset: int, segment: Segment, position: int) -> None:
        """In `segment` the batches from `offset` on begin at `position`; it is its size where none follows."""
        positions = self._positions
        if len(positions) >= POSITIONS_KEPT and offset not in positions:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def of(self, offset: int, segment: Segment) -> int | None:
        kept = self._positions.get(offset)
        return kept[1] if kept is not None and kept[0] is segment else None

    def clear(self) -> None:
        self._positions.clear()


class Segments(Sequence[Segment]):
    """The oldest first, and at least one. The last is `active`: it alone is written to, and it ends with the log."""

    __slots__ = ("_read_positions", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self.active = segments[-1]
        self._read_positions = ReadPositions()

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._segments[slot]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def slot_of(self, offset: int) -> int:
        """The slot of the segment that contains `offset`, or would."""
        return max(0, bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1)

    def read(
        self, offset: int, size_bytes_max: int, limit_offset: int, log_end_offset: int, leader_epoch_max: int
    ) -> LogSlice:
        """Whole batches from the one that contains `offset`, below `limit_offset`: as many as fit, but at least one.

        Raises DiskError if what is on the disk is not what was written.
        """
        while offset < limit_offset:
            segment, end_offset = self._containing(offset, log_end_offset)
            position = self._read_positions.of(offset, segment)
            if position is None:
                found = segment.position_of(offset)
                position = segment.size_bytes if found is None else found.position
                self._read_positions.keep(offset, segment, position)
            if position == segment.size_bytes:
                if not segment.is_followed_by(offset, end_offset):
                    raise segment.damaged(position, offset, "it ends before")
                offset = end_offset
                continue
            part = segment.read(position, size_bytes_max, limit_offset, end_offset, offset, leader_epoch_max)
            if part.data:
                self._read_positions.keep(part.next_offset, segment, position + len(part.data))  # type: ignore[arg-type]
            return part
        return LogSlice(b"", offset)

    def batches(self, log_start_offset: int, log_end_offset: int, leader_epoch_max: int) -> Iterator[ScannedBatch]:
        """Every batch from the log start on, each checked. Raises DamagedLogError where one is not what was written."""
        segments = list(self._segments)
        ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
        for segment, end_offset in zip(segments, ends, strict=True):
            for batch in segment.batches_from(max(segment.base_offset, log_start_offset)):
                header = batch.header
                is_known = EPOCH_MIN <= header.leader_epoch <= leader_epoch_max
                if not is_known or header.last_offset >= end_offset:
                    reason = f"offset {header.last_offset} of leader epoch {header.leader_epoch} does not belong there"
                    raise segment.damaged(batch.position, header.base_offset, reason)
                yield batch

    def size_between(self, offset: int, limit_offset: int, log_end_offset: int) -> int:
        """The bytes of the batches from `offset` on, below `limit_offset`. It reads nothing.

        Exact for a reader that goes on where it ended, up to the end of the log; else what lies between two entries of
        an offset index may be too much.
        """
        active = self.active
        if offset == log_end_offset:
            self._read_positions.keep(offset, active, active.size_bytes)
        if offset >= limit_offset:
            return 0
        segment, _ = self._containing(offset, log_end_offset)
        start = self._read_positions.of(offset, segment)
        if start is None:
            start = segment.position_before(offset)
        if segment is active:
            return active.position_after(limit_offset if limit_offset < log_end_offset else None) - start
        later = self._segments[self.slot_of(offset) + 1 :]
        return segment.size_bytes - start + sum(one.size_bytes for one in later if one.base_offset < limit_offset)

    def batch_bytes(self, offset: int, log_end_offset: int) -> int:
        """The size of the batch that contains `offset`, or else of the next one; 0 at the end of the log. Raises DiskError."""
        while offset < log_end_offset:
            segment, end_offset = self._containing(offset, log_end_offset)
            found = segment.position_of(offset)
            if found is not None:
                return found.header.size_bytes
            offset = end_offset
        return 0

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records from `first_offset` on and below the upper bound, by first offset."""
        found: list[AbortedTransaction] = []
        for segment in self._segments[self.slot_of(first_offset) :]:
            part, is_last = segment.indexes.transactions.between(first_offset, upper_bound_offset)
            found += part
            if is_last:
                break
        found.sort(key=lambda aborted: aborted.first_offset)
        return tuple(found)

    def roll(self, segment: Segment) -> None:
        """Go on in a new segment."""
        self._segments.append(segment)
        self.active = segment

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Have a cleaned segment in the place of others."""
        slot = self._segments.index(old[0])
        assert self._segments[slot : slot + len(old)] == list(old), "the segments are others"
        assert self.active not in old, "the active segment is never cleaned"
        self._segments[slot : slot + len(old)] = [cleaned]
        self._read_positions.clear()

    def forget_first(self, count: int) -> None:
        del self._segments[:count]

    def begin_again(self, segment: Segment) -> list[Segment]:
        """Have an empty segment in the place of all others; return those."""
        old, self._segments = self._segments, [segment]
        self.active = segment
        self._read_positions.clear()
        return old

    def end_of_what_stays(self, offset: int, log_end_offset: int) -> tuple[int, int, int]:
        """The end of the log after a truncation to `offset`: the offset, its segment's base offset, and the position there."""
        segment = self._segments[self.slot_of(offset)]
        if offset == log_end_offset:
            return offset, segment.base_offset, segment.size_bytes
        end_offset, position = segment.end_below(offset)
        return end_offset, segment.base_offset, position

    def truncate_to(self, offset: int) -> int:
        """Cut off the batch that contains `offset` and all that follows it; return where the log ends now."""
        slot = self.slot_of(offset)
        self.active = self._segments[slot]
        end_offset = self.active.truncate_to(offset)
        for later in self._segments[slot + 1 :]:
            later.remove()
        del self._segments[slot + 1 :]
        self._read_positions.clear()
        return end_offset

    def _containing(self, offset: int, log_end_offset: int) -> tuple[Segment, int]:
        """The segment that contains `offset`, and the offset at which it ends."""
        if offset >= self.active.base_offset:
            return self.active, log_end_offset
        slot = self.slot_of(offset)
        return self._segments[slot], self._segments[slot + 1].base_offset


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
    """True if a batch has this timestamp, and none behind it a later one."""
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
