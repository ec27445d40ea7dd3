"""`.timeindex`: from when on a segment has a timestamp. Timestamps in it only grow.

0   timestamp i64    the largest so far, in milliseconds
8   offset i32       of the last record of the batch that has it, less the segment's base offset
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct

from oncelog.environment import Disk
from oncelog.log.entry_file import EntryFile

NO_TIMESTAMP = -1

_ENTRY = Struct(">qi")


class TimeIndex:
    """Of its entries only the last one is kept in memory."""

    __slots__ = ("_base_offset", "_last", "entries_max", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, size_bytes_max: int, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _ENTRY.size, exists=exists)
        self._base_offset = base_offset
        # One entry is kept free for the last one, which is written when the segment is sealed.
        self.entries_max = size_bytes_max // _ENTRY.size - 1
        self._last: tuple[int, int] | None = None if exists else (NO_TIMESTAMP, base_offset)

    @property
    def is_full(self) -> bool:
        return self.file.count >= self.entries_max

    @property
    def entries_left(self) -> int:
        return self.entries_max - self.file.count

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (NO_TIMESTAMP, base offset) without one."""
        if self._last is None:
            data = self.file.read_all()
            if data:
                timestamp_ms, relative = _ENTRY.unpack_from(data, len(data) - _ENTRY.size)
                self._last = (timestamp_ms, relative + self._base_offset)
            else:
                self._last = (NO_TIMESTAMP, self._base_offset)
        return self._last

    def append_if_later(self, timestamp_ms: int, offset: int) -> None:
        if timestamp_ms > self.last[0]:
            self.file.append(_ENTRY.pack(timestamp_ms, offset - self._base_offset))
            self._last = (timestamp_ms, offset)

    def floor(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The last entry with a timestamp before `timestamp_ms`: no record before its offset has one as late as that."""
        entries = list(self._entries())
        slot = bisect_right(entries, timestamp_ms - 1, key=lambda entry: entry[0]) - 1
        return None if slot < 0 else entries[slot]

    def truncate(self, offset: int) -> None:
        """Keep the entries of batches that end before `offset`."""
        if self.last[0] != NO_TIMESTAMP and self.last[1] >= offset:
            self.file.truncate(sum(1 for _, entry_offset in self._entries() if entry_offset < offset))
            self._last = None

    def clear(self) -> None:
        self.file.truncate(0)
        self._last = (NO_TIMESTAMP, self._base_offset)

    def is_sane(self) -> bool:
        """Whether timestamps rise from entry to entry, and offsets do not fall, from the segment's base offset on."""
        before_ms, before_offset = NO_TIMESTAMP, self._base_offset
        for timestamp_ms, offset in self._entries():
            if timestamp_ms <= before_ms or offset < before_offset:
                return False
            before_ms, before_offset = timestamp_ms, offset
        return True

    def _entries(self) -> Iterator[tuple[int, int]]:
        base_offset = self._base_offset
        for timestamp_ms, relative in _ENTRY.iter_unpack(self.file.read_all()):
            yield timestamp_ms, relative + base_offset
