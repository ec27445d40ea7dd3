"""The segments of one log, and reading across them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from oncelog.log.config import EPOCH_MIN
from oncelog.log.outcome import AbortedTransaction, LogSlice
from oncelog.log.read_positions import ReadPositions
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment


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
        """Which segment contains `offset`, or would."""
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
        """Where the log ends if it is cut off at `offset`: the offset, its segment's base offset, and the position there."""
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
