"""A segment while it is written by a cleaning, under names that end with `.cleaned`."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.environment import Disk, File, Share
from oncelog.log.compaction.batch_filter import KeptBatch
from oncelog.log.compaction.replacement import CLEANED
from oncelog.log.config import LogConfig
from oncelog.log.names import DELETED, LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, offset_name
from oncelog.log.offset_index import OffsetIndex
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.time_index import NO_TIMESTAMP, TimeIndex
from oncelog.log.transaction_index import TransactionIndex


class CleanedSegment:
    """Files of these names that a cleaning has left before are written over."""

    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_index_interval_bytes",
        "_max",
        "_offset_index",
        "_path",
        "_time_index",
        "_transaction_index",
        "base_offset",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        def path(suffix: str) -> str:
            path = f"{directory}/{offset_name(base_offset, suffix)}{CLEANED}"
            disk.remove(path)
            return path

        self.base_offset = base_offset
        self._disk = disk
        self._index_interval_bytes = config.index_interval_bytes
        index_bytes = config.segment_index_bytes
        self._offset_index = OffsetIndex(disk, path(OFFSET_INDEX), base_offset, index_bytes, exists=False)
        self._time_index = TimeIndex(disk, path(TIME_INDEX), base_offset, index_bytes, exists=False)
        self._transaction_index = TransactionIndex(disk, path(TRANSACTION_INDEX), exists=False)
        self._path = path(LOG)
        self._file: File = disk.open(self._path, create=True)
        self._bytes_since_entry = 0
        self._max = (NO_TIMESTAMP, base_offset)

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def append(self, batches: Sequence[KeptBatch]) -> None:
        if not batches:
            return
        position = self._file.append([batch.data for batch in batches], Share.NONE)
        for header, _ in batches:
            self._note(position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
            position += header.size_bytes

    def _note(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        if max_timestamp_ms > self._max[0]:
            self._max = (max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._index_interval_bytes:
            self._offset_index.append(last_offset, position)
            self._time_index.append_if_later(*self._max)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def index_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Index aborted transactions whose markers are in this segment, in their order."""
        for one in aborted:
            self._transaction_index.append(one)

    def seal(self) -> list[File]:
        """Write the last entry of the time index; return the files that are to be made durable.

        There is an index of each kind, be it empty: none of the files that are replaced may be taken for one of these.
        """
        self._time_index.append_if_later(*self._max)
        indexes = (self._offset_index.file, self._time_index.file, self._transaction_index.file)
        return [self._file, *(index.create() for index in indexes)]

    def close(self) -> None:
        self._file.close()
        for index in (self._offset_index, self._time_index, self._transaction_index):
            index.file.close()

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
        indexes = (self._offset_index, self._time_index, self._transaction_index)
        return [self._path, *(index.file.path for index in indexes if index.file.exists)]
