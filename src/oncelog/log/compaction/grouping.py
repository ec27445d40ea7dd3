"""Which neighbouring segments become one: they would shrink for ever otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oncelog.log.config import LogConfig
from oncelog.log.segment import RELATIVE_OFFSET_MAX, Segment

SEGMENTS_MAX = 64
"""Each has four files to rename, one after the other while nobody else is served."""


class SegmentGroup(NamedTuple):
    """Neighbours, and the offsets at which they end."""

    segments: tuple[Segment, ...]
    ends: tuple[int, ...]

    @property
    def end_offset(self) -> int:
        return self.ends[-1]


def groups_of(segments: Iterable[tuple[Segment, int]], config: LogConfig) -> list[SegmentGroup]:
    """Groups whose files and indexes are together no larger than those of one segment (Kafka's Cleaner.groupSegmentsBySize).

    `segments` come with the offsets at which they end.
    """
    groups: list[SegmentGroup] = []
    group: list[Segment] = []
    ends: list[int] = []
    sizes = (0, 0, 0)
    for segment, end_offset in segments:
        own = (segment.size_bytes, segment.indexes.offsets.file.size_bytes, segment.indexes.times.file.size_bytes)
        together = tuple(map(sum, zip(sizes, own, strict=True)))
        limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        fits = all(size <= limit for size, limit in zip(together, limits, strict=True))
        if (
            group
            and fits
            and len(group) < SEGMENTS_MAX
            and end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            group.append(segment)
            ends.append(end_offset)
            sizes = (together[0], together[1], together[2])
        else:
            if group:
                groups.append(SegmentGroup(tuple(group), tuple(ends)))
            group, ends, sizes = [segment], [end_offset], own
    if group:
        groups.append(SegmentGroup(tuple(group), tuple(ends)))
    return groups
