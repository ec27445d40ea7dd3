"""Which neighbouring segments become one: they would shrink for ever otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oncelog.log.config import LogConfig
from oncelog.log.segment import RELATIVE_OFFSET_MAX, Segment

SEGMENTS_MAX = 64
"""Each has four files to rename, one after the other while nobody else is served."""


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Neighbours, and the offset at which the last of them ends."""

    segments: tuple[Segment, ...]
    end_offset: int


def groups_of(segments: Iterable[tuple[Segment, int]], config: LogConfig) -> list[SegmentGroup]:
    """Groups whose files and indexes are together no larger than those of one segment (Kafka's Cleaner.groupSegmentsBySize).

    `segments` come with the offsets at which they end.
    """
    groups: list[SegmentGroup] = []
    group: list[Segment] = []
    sizes = (0, 0, 0)
    group_end = -1
    for segment, end_offset in segments:
        own = (segment.size_bytes, segment.offset_index.file.size_bytes, segment.time_index.file.size_bytes)
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
            sizes = (together[0], together[1], together[2])
        else:
            if group:
                groups.append(SegmentGroup(tuple(group), group_end))
            group, sizes = [segment], own
        group_end = end_offset
    if group:
        groups.append(SegmentGroup(tuple(group), group_end))
    return groups
