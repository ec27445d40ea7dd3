"""How much of a log could be cleaned, and whether it is worth it (Kafka's LogCleanerManager)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.segment import Segment


class Dirt(NamedTuple):
    """Whole segments: those below `first_dirty_offset` were cleaned before, and none from `end_offset` on may be.

    `is_overdue`: records have waited for max.compaction.lag.ms.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_worth_cleaning(self, config: LogConfig) -> bool:
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio


def dirt_of(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    *,
    cleaned_offset: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
) -> Dirt | None:
    """None if nothing has come that could be cleaned. Transactions that are open, and the active segment, are left alone."""
    first_dirty = log_start_offset if cleaned_offset is None else max(cleaned_offset, log_start_offset)
    if first_dirty > log_end_offset:
        # Part of the log was lost: nothing is known to be clean.
        first_dirty = log_start_offset
    active = segments[-1]
    if active.base_offset <= first_dirty:
        return None
    first = _slot_of(segments, first_dirty)
    # A segment that has the last stable offset inside is left alone.
    last = min(_slot_of(segments, last_stable_offset), len(segments) - 1)
    if config.min_compaction_lag_ms > 0:
        newest_ms = now_ms - config.min_compaction_lag_ms
        waiting = (slot for slot in range(first, last) if _latest_ms(segments[slot]) > newest_ms)
        last = next(waiting, last)
    if last <= first:
        return None
    return Dirt(
        first_dirty,
        segments[last].base_offset,
        sum(segment.size_bytes for segment in segments[:first]),
        sum(segment.size_bytes for segment in segments[first:last]),
        _is_overdue(segments[first:last], config, now_ms),
    )


def _slot_of(segments: Sequence[Segment], offset: int) -> int:
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def _latest_ms(segment: Segment) -> int:
    """As in Kafka, the time of the file stands for timestamps that there are not."""
    largest_ms, _ = segment.max_timestamp
    return largest_ms if largest_ms >= 0 else segment.modified_ms()


def _is_overdue(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> bool:
    if config.max_compaction_lag_ms == LONG_MAX:
        return False
    began_ms = (segment.first_timestamp_ms for segment in segments)
    return any(0 < one < now_ms - config.max_compaction_lag_ms for one in began_ms)
