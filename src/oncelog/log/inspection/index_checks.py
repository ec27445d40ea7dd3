"""Whether the indexes of a segment agree with its batches. Entries are read a piece at a time, beside the batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from oncelog.environment import Disk
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.outcome import AbortedTransaction
from oncelog.records import BatchHeader

CHUNK_ENTRIES = 4096
OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")


class Problem(NamedTuple):
    """What is wrong with an index, at which of its bytes, and the offset of the marker it is about, if there is one."""

    position: int
    what: str
    offset: int | None = None


class IndexEntries:
    """The entries of an index file, the next one at hand; none if there is no file."""

    def __init__(self, disk: Disk, path: str, entry: Struct) -> None:
        self._entry = entry
        self.exists = disk.exists(path)
        self.count = 0
        self._file = disk.open(path) if self.exists else None
        self.size_bytes = 0 if self._file is None else self._file.size_bytes
        self._left = self._read()
        self.next = next(self._left, None)

    @property
    def position(self) -> int:
        """Where the next entry is."""
        return self.count * self._entry.size

    @property
    def rest_bytes(self) -> int:
        return self.size_bytes % self._entry.size

    def advance(self) -> None:
        self.count += 1
        self.next = next(self._left, None)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self) -> Iterator[tuple[int, ...]]:
        step = CHUNK_ENTRIES * self._entry.size
        for position in range(0, self.size_bytes, step):
            assert self._file is not None
            data = self._file.read(position, step)
            yield from self._entry.iter_unpack(data[: len(data) - len(data) % self._entry.size])


class OffsetIndexCheck:
    """Each entry names a batch and where it is, and there is one for every `interval_bytes` of them."""

    def __init__(self, disk: Disk, path: str, base_offset: int, interval_bytes: int) -> None:
        self.path = path
        self.problem: Problem | None = None
        self._entries = IndexEntries(disk, path, OFFSET_ENTRY)
        self._base_offset = base_offset
        self._spacing_bytes = interval_bytes
        self._since_bytes = 0
        self._is_due = False

    @property
    def exists(self) -> bool:
        return self._entries.exists

    def take(self, position: int, header: BatchHeader) -> None:
        entries = self._entries
        if self.problem is None:
            while entries.next is not None and entries.next[1] < position:
                self._fault(f"the entry points at byte {entries.next[1]}, where no batch begins")
                return
            if entries.next is not None and entries.next[1] == position:
                offset = entries.next[0] + self._base_offset
                if offset != header.last_offset:
                    self._fault(
                        f"the entry says that offset {offset} ends the batch that ends with {header.last_offset}"
                    )
                    return
                self._spacing_bytes = max(self._spacing_bytes, self._since_bytes)
                self._since_bytes, self._is_due = 0, False
                entries.advance()
            elif self._since_bytes > self._spacing_bytes:
                self._is_due = True
        self._since_bytes += header.size_bytes

    def finish(self, *, is_complete: bool, may_be_missing: bool) -> None:
        """`is_complete`: every entry was written. A file without entries need not be there at all."""
        entries = self._entries
        if self.problem is None:
            if entries.next is not None:
                self._fault(f"the entry points at byte {entries.next[1]}, beyond the last batch")
            elif entries.rest_bytes:
                self._fault(f"{entries.rest_bytes} bytes follow the last entry")
            elif is_complete and self._is_due:
                self._fault("entries are missing")
            elif is_complete and not self.exists and not may_be_missing:
                self._fault("the file is missing")
        entries.close()

    def _fault(self, what: str) -> None:
        self.problem = Problem(self._entries.position, what)


class TimeIndexCheck:
    """Each entry is the largest timestamp so far and the batch that had it first; the last one is that of the segment."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.problem: Problem | None = None
        self._entries = IndexEntries(disk, path, TIME_ENTRY)
        self._base_offset = base_offset
        self._max_ms = NO_TIMESTAMP
        self._last_ms = NO_TIMESTAMP

    @property
    def exists(self) -> bool:
        return self._entries.exists

    def take(self, position: int, header: BatchHeader) -> None:
        entries = self._entries
        if header.max_timestamp_ms <= self._max_ms:
            return
        self._max_ms = header.max_timestamp_ms
        if self.problem is not None or entries.next is None or entries.next[0] > self._max_ms:
            return
        timestamp_ms, relative = entries.next
        if timestamp_ms < self._max_ms:
            self._fault(f"no batch has the timestamp {timestamp_ms} as the largest up to there")
        elif relative + self._base_offset != header.last_offset:
            self._fault(
                f"the entry says that offset {relative + self._base_offset} has the timestamp {timestamp_ms}, "
                f"and {header.last_offset} has it"
            )
        else:
            self._last_ms = timestamp_ms
            entries.advance()

    def finish(self, *, is_complete: bool, may_be_missing: bool) -> None:
        entries = self._entries
        if self.problem is None:
            if entries.next is not None:
                self._fault(f"no batch has the timestamp {entries.next[0]} as the largest up to there")
            elif entries.rest_bytes:
                self._fault(f"{entries.rest_bytes} bytes follow the last entry")
            elif is_complete and self._last_ms != self._max_ms:
                self._fault("the last entry is missing" if self.exists else "the file is missing")
            elif is_complete and not self.exists and not may_be_missing:
                self._fault("the file is missing")
        entries.close()

    def _fault(self, what: str) -> None:
        self.problem = Problem(self._entries.position, what)


def check_transaction_index(
    disk: Disk, path: str, wanted: Sequence[AbortedTransaction], *, is_exact: bool, is_compacted: bool
) -> Problem | None:
    """Whether the file has just the aborted transactions whose markers are in the segment.

    Without `is_exact` the beginnings of transactions are not known, and entries are told by producer and marker. Where the
    log `is_compacted`, the file may have more: the records of a transaction that was aborted are gone, or its marker is.
    """
    entries = IndexEntries(disk, path, TRANSACTION_ENTRY)
    try:
        end = -1
        for aborted in wanted:
            while is_compacted and entries.next is not None and entries.next[3] < aborted.last_offset:
                entries.advance()
            end = aborted.last_offset
            if entries.next is None:
                return Problem(entries.position, f"the transaction that was aborted at offset {end} is not in it", end)
            version, *fields = entries.next
            found = AbortedTransaction(*fields)
            is_same = found == aborted if is_exact else (found[0], found[2]) == (aborted[0], aborted[2])
            if version or not is_same:
                what = f"the entry is {tuple(found)}, and the markers say {tuple(aborted)}"
                return Problem(entries.position, what, end)
            entries.advance()
        if entries.next is not None and not is_compacted:
            offset = entries.next[3] if entries.next[3] > max(end, entries.next[2]) else None
            what = f"no marker aborted the transaction of the entry {entries.next[1:]}"
            return Problem(entries.position, what, offset)
        if entries.rest_bytes:
            return Problem(entries.position, f"{entries.rest_bytes} bytes follow the last entry")
        return None
    finally:
        entries.close()
