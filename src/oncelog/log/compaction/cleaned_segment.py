"""Neighbouring segments that become one, and the files of the segment that takes their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncelog.environment import Disk, File, Share
from oncelog.log.compaction.batch_filter import KeptBatch
from oncelog.log.compaction.replacement import CLEANED
from oncelog.log.config import LogConfig
from oncelog.log.names import DELETED, LOG, offset_name
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.segment import RELATIVE_OFFSET_MAX, Segment
from oncelog.log.segment_indexes import SegmentIndexes

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


class CleanedSegment:
    """Files of these names that a cleaning has left before are written over."""

    __slots__ = (
        "_disk",
        "_file",
        "_indexes",
        "_path",
        "base_offset",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        self.base_offset = base_offset
        self._disk = disk
        self._indexes = SegmentIndexes(disk, directory, base_offset, config, ending=CLEANED)
        self._path = f"{directory}/{offset_name(base_offset, LOG)}{CLEANED}"
        for path in (*(index.path for index in self._indexes.files), self._path):
            disk.remove(path)
        self._file: File = disk.open(self._path, create=True)

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def append(self, batches: Sequence[KeptBatch]) -> None:
        if not batches:
            return
        position = self._file.append([batch.data for batch in batches], Share.NONE)
        for header, _ in batches:
            self._indexes.note(position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
            position += header.size_bytes

    def index_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Index aborted transactions whose markers are in this segment, in their order."""
        for one in aborted:
            self._indexes.transactions.append(one)

    def seal(self) -> list[File]:
        """Write the last entry of the time index; return the files that are to be made durable.

        There is an index of each kind, be it empty: none of the files that are replaced may be taken for one of these.
        """
        self._indexes.note_latest()
        return [self._file, *(index.create() for index in self._indexes.files)]

    def close(self) -> None:
        self._file.close()
        self._indexes.close()

    def remove(self) -> None:
        """Remove the files: they hold what the old ones do."""
        for path in self._close_all():
            self._disk.remove(path)

    def drop(self) -> list[str]:
        """The cleaning is given up: rename the files as deleted, and return their new paths."""
        dropped = []
        for path in self._close_all():
            self._disk.rename(path, path + DELETED)
            dropped.append(path + DELETED)
        return dropped

    def _close_all(self) -> list[str]:
        """Close the files; return the paths of those that there are."""
        self.close()
        return [self._path, *(index.path for index in self._indexes.files if index.exists)]
