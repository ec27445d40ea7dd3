"""The three indexes of a segment, and the transaction index, `.txnindex`, in particular.

It has the aborted transactions whose marker is in the segment:

 0   version i16      0
 2   producer id i64
10   first offset i64
18   last offset i64          of the ABORT marker; grows from entry to entry
26   last stable offset i64   just after the marker
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from struct import Struct

from oncelog.environment import Disk, File
from oncelog.log.config import LogConfig
from oncelog.log.index_files import NO_TIMESTAMP, EntryFile, OffsetIndex, TimeIndex
from oncelog.log.names import DELETED, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, offset_name
from oncelog.log.outcome import AbortedTransaction, DamagedLogError
from oncelog.records import HEADER_BYTES, crc32c

VERSION = 0

_TRANSACTION_ENTRY = Struct(">hqqqq")


class TransactionIndex:
    """Without its entry an aborted transaction would reach readers: it is written at once, and synced with the log."""

    __slots__ = ("_digest", "_entries", "file")

    def __init__(self, disk: Disk, path: str, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _TRANSACTION_ENTRY.size, exists=exists)
        self._entries: list[AbortedTransaction] | None = None if exists else []
        self._digest: tuple[int, int, int] | None = None if exists else (0, 0, -1)
        """The number and the CRC-32C of all entries, and the last offset of the last."""

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted.last_offset, "aborts are indexed in their order"
        count, crc, _ = self._digest or _digest(entries)
        entry = _TRANSACTION_ENTRY.pack(VERSION, *aborted)
        self._digest = count + 1, crc32c(entry, crc), aborted.last_offset
        self.file.append(entry)
        self.file.write_out()
        entries.append(aborted)

    def entries(self) -> list[AbortedTransaction]:
        """Every entry, in the order of the markers. Raises DiskError if the file holds something else."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def between(self, offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions with records in [offset, upper bound), and True if later segments have no more of them."""
        entries = self.entries()
        found = []
        for entry in entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]:
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def digest(self, offset: int) -> tuple[int, int]:
        """The number and the CRC-32C of the entries of markers before `offset`, as they were written or last read."""
        if self._digest is None:
            self._digest = _digest(self.entries())
        count, crc, last_offset = self._digest
        if last_offset < offset:
            return count, crc
        return _digest([entry for entry in self.entries() if entry.last_offset < offset])[:2]

    def digest_in_file(self, offset: int) -> tuple[int, int]:
        """The same, of the entries in the file up to the first that can be none; nothing of it is believed."""
        if not self.file.exists:
            return 0, 0
        whole = self._whole_entries()
        if len(whole) < self.file.count:
            return len(whole), -1
        return _digest([entry for entry in whole if entry.last_offset < offset])[:2]

    def is_sane(self) -> bool:
        return len(self._whole_entries()) == self.file.count

    def truncate(self, offset: int) -> None:
        """Keep the entries of markers before `offset`."""
        self._keep([entry for entry in self.entries() if entry.last_offset < offset])

    def replace_from(self, offset: int, aborted: Sequence[AbortedTransaction]) -> None:
        """After a crash: from `offset` on there are to be the entries of `aborted`, whatever the file says.

        Entries that are right stay as they are, for they may be durable; what is written is made durable.
        """
        entries = self._whole_entries()
        wanted = [*(entry for entry in entries if entry.last_offset < offset), *aborted]
        if entries == wanted and self.file.count == len(wanted):
            self._entries = wanted
            self._digest = None
            return
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(entries, wanted, strict=False)))
        self._keep(wanted[:right])
        for entry in wanted[right:]:
            self.append(entry)
        if self.file.exists:
            self.file.create().sync()

    def _keep(self, entries: list[AbortedTransaction]) -> None:
        if len(entries) < self.file.count:
            self.file.truncate(len(entries))
        self._entries = entries
        self._digest = None

    def _read(self) -> list[AbortedTransaction]:
        entries = self._whole_entries()
        if len(entries) < self.file.count:
            raise DamagedLogError(f"{self.file.path} is damaged at entry {len(entries)}")
        return entries

    def _whole_entries(self) -> list[AbortedTransaction]:
        """The entries up to the first that can be none."""
        entries: list[AbortedTransaction] = []
        before = -1
        for version, *fields in _TRANSACTION_ENTRY.iter_unpack(self.file.read_all()):
            entry = AbortedTransaction(*fields)
            if version != VERSION or entry.last_offset <= max(before, entry.first_offset):
                break
            entries.append(entry)
            before = entry.last_offset
        return entries


def _digest(entries: Sequence[AbortedTransaction]) -> tuple[int, int, int]:
    crc = 0
    for entry in entries:
        crc = crc32c(_TRANSACTION_ENTRY.pack(VERSION, *entry), crc)
    return len(entries), crc, entries[-1].last_offset if entries else -1


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
        """True if a segment of so many bytes would have an offset index, and its file is missing."""
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
