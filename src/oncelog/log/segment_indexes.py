"""The three indexes of a segment: which batch is where, which is the latest, which transactions were aborted."""

from __future__ import annotations

from collections.abc import Callable, Collection

from oncelog.environment import Disk, File
from oncelog.log.config import LogConfig
from oncelog.log.entry_file import EntryFile
from oncelog.log.names import DELETED, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, offset_name
from oncelog.log.offset_index import OffsetIndex
from oncelog.log.time_index import NO_TIMESTAMP, TimeIndex
from oncelog.log.transaction_index import TransactionIndex
from oncelog.records import HEADER_BYTES


class SegmentIndexes:
    """`offsets` and `times` get an entry together, about every index.interval.bytes; `transactions` one for each abort."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_interval_bytes",
        "_max",
        "full_from_bytes",
        "offsets",
        "times",
        "transactions",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        names: Collection[str] = (),
        *,
        ending: str = "",
    ) -> None:
        """`names` are the files that are in the directory; `ending` is what comes behind the name of each index."""

        def index(suffix: str) -> tuple[str, bool]:
            name = offset_name(base_offset, suffix) + ending
            return f"{directory}/{name}", name in names

        self._base_offset = base_offset
        self._interval_bytes = config.index_interval_bytes
        path, exists = index(OFFSET_INDEX)
        self.offsets = OffsetIndex(disk, path, base_offset, config.segment_index_bytes, exists=exists)
        path, exists = index(TIME_INDEX)
        self.times = TimeIndex(disk, path, base_offset, config.segment_index_bytes, exists=exists)
        path, exists = index(TRANSACTION_INDEX)
        self.transactions = TransactionIndex(disk, path, exists=exists)
        # Each entry is of a batch of its own: with fewer bytes of batches no index is full.
        self.full_from_bytes = HEADER_BYTES * min(self.offsets.entries_max, self.times.entries_max)
        self._bytes_since_entry = 0
        self._max: tuple[int, int] | None = None

    @property
    def files(self) -> tuple[EntryFile, EntryFile, EntryFile]:
        return self.offsets.file, self.times.file, self.transactions.file

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, NO_TIMESTAMP without one, and the last offset of the first batch that has it."""
        if self._max is None:
            self._max = self.times.last
        return self._max

    @property
    def are_full(self) -> bool:
        return self.offsets.is_full or self.times.is_full

    @property
    def entries_left(self) -> int:
        """Each batch may need an entry in both indexes."""
        return min(self.offsets.entries_left, self.times.entries_left)

    def note(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Bring the indexes up to date with a batch that is in the file."""
        if max_timestamp_ms > (self._max or self.max_timestamp)[0]:
            self._max = (max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.append_if_later(*self.max_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def note_time(self, last_offset: int, max_timestamp_ms: int) -> None:
        """The same of what the indexes have no entry of."""
        if max_timestamp_ms > (self._max or self.max_timestamp)[0]:
            self._max = (max_timestamp_ms, last_offset)

    def note_latest(self) -> None:
        """Write the last time index entry."""
        self.times.append_if_later(*self.max_timestamp)

    def count_again(self, size_bytes: int) -> None:
        """So many bytes of batches have come since the last entry."""
        self._bytes_since_entry = size_bytes

    def are_missing(self, size_bytes: int) -> bool:
        """Whether a segment of so many bytes would have got a file of offsets, and there is none."""
        return size_bytes > self._interval_bytes and not self.offsets.file.exists

    def restart(self, offset: int, size_bytes: int, is_true: Callable[[tuple[int, int]], bool]) -> int:
        """Drop the entries from `offset` on; return the position from which on batches are to be noted again.

        Indexes that make no sense are dropped whole. `is_true` says whether the batch that an entry points at is the one it names.
        """
        # What comes first after this is the last entry's own batch: it must not give a second entry.
        self._bytes_since_entry = 0
        self.offsets.truncate(offset)
        entry = self.offsets.last()
        if entry is not None and self.offsets.is_sane(size_bytes) and is_true(entry):
            self.times.truncate(entry[0] + 1)
            # With each entry of the one, the other got its first at the latest.
            if self.times.is_sane() and self.times.last[0] != NO_TIMESTAMP:
                self._max = self.times.last
                return entry[1]
        self.offsets.clear()
        self.times.clear()
        self._max = self.times.last
        return 0

    def end_at(self, offset: int) -> None:
        """If the mark of a clean stop is an old one, the indexes may go on where the batches were lost."""
        self.times.truncate(offset)
        self.transactions.truncate(offset)

    def write_out(self) -> None:
        """Hand all entries to the operating system, so that a start after a crash of this process finds them."""
        self.offsets.file.write_out()
        self.times.file.write_out()

    def seal(self) -> list[File]:
        """Write the last time index entry; return the files that are to be made durable."""
        self.note_latest()
        self.offsets.unload()
        files = [self.offsets.file.create(), self.times.file.create()]
        if self.transactions.file.exists:
            files.append(self.transactions.file.create())
        return files

    def sync(self) -> None:
        for index in self.files:
            written = index.open_file()
            if written is not None:
                written.sync()

    def close(self) -> None:
        """Close the files until they are needed again."""
        for index in self.files:
            index.close()
        self.offsets.unload()

    def continue_in(self, directory: str) -> None:
        """Go on in copies of the files."""
        for index, suffix in zip(self.files, (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX), strict=True):
            index.continue_in(f"{directory}/{offset_name(self._base_offset, suffix)}")

    def rename_deleted(self) -> list[str]:
        """Rename the files as deleted; return the new paths."""
        paths = []
        for index in self.files:
            if index.exists:
                index.rename(index.path + DELETED)
                paths.append(index.path)
        return paths

    def remove(self) -> None:
        for index in self.files:
            index.remove()
