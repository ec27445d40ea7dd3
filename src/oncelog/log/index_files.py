"""The offset index and the time index of a segment: files of fixed-size entries, all integers big-endian.

`.index` tells where in a segment an offset is. It has one entry for every few kilobytes of batches:

0   offset i32       of the last record of a batch, less the segment's base offset
4   position i32     of that batch

`.timeindex` tells from when on a segment has a timestamp. Timestamps in it only grow:

0   timestamp i64    the largest so far, in milliseconds
8   offset i32       of the last record of the batch that has it, less the segment's base offset
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import lt
from struct import Struct

from oncelog.environment import Disk, File

UNWRITTEN_BYTES_MAX = 512


class EntryFile:
    """Entries are collected in memory and written a few at a time: what a crash takes is made again from the log."""

    __slots__ = ("_count", "_disk", "_entry_bytes", "_exists", "_file", "_path", "_unwritten")

    def __init__(self, disk: Disk, path: str, entry_bytes: int, *, exists: bool) -> None:
        self._disk = disk
        self._path = path
        self._entry_bytes = entry_bytes
        self._exists = exists
        self._count = -1 if exists else 0
        self._file: File | None = None
        self._unwritten = bytearray()

    @property
    def path(self) -> str:
        return self._path

    @property
    def exists(self) -> bool:
        return self._exists

    @property
    def count(self) -> int:
        if self._count < 0:
            self._count = len(self._read_file()) // self._entry_bytes
        return self._count

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry_bytes

    def append(self, entry: bytes) -> None:
        self._count = self.count + 1
        self._unwritten += entry
        if len(self._unwritten) >= UNWRITTEN_BYTES_MAX:
            self.write_out()

    def write_out(self) -> None:
        """Hand what was collected to the operating system."""
        if self._unwritten:
            self._open_to_write().append((bytes(self._unwritten),))
            self._unwritten.clear()

    def read_all(self) -> bytes:
        """Every whole entry."""
        data = self._read_file()
        return data[: len(data) - len(data) % self._entry_bytes] + self._unwritten

    def read_last(self) -> bytes:
        """The last whole entry that is in the file; empty if there is none."""
        if not self._exists:
            return b""
        file = self._file or self._disk.open(self._path)
        end = file.size_bytes - file.size_bytes % self._entry_bytes
        data = file.read(end - self._entry_bytes, self._entry_bytes) if end else b""
        if file is not self._file:
            file.close()
        return data

    def truncate(self, count: int) -> None:
        if not self._exists and not self._unwritten:
            return
        self.write_out()
        self._count = count
        self._open_to_write().truncate(count * self._entry_bytes)

    def create(self) -> File:
        """Make sure there is a file, be it empty. The caller makes it durable."""
        self.write_out()
        return self._open_to_write()

    def open_file(self) -> File | None:
        """The file, if something was written through it and it may not be durable."""
        self.write_out()
        return self._file

    def close(self) -> None:
        self.write_out()
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, path: str) -> None:
        if self._exists:
            self._disk.rename(self._path, path)
        self._path = path

    def continue_in(self, path: str) -> None:
        """Go on in a copy of the file, which has all that was written out."""
        assert not self._unwritten, "what is not written out is not in the copy"
        self.close()
        self._path = path
        self._count = -1 if self._exists else 0

    def remove(self) -> None:
        self._unwritten.clear()
        self.close()
        if self._exists:
            self._disk.remove(self._path)
        self._exists = False
        self._count = 0

    def _read_file(self) -> bytes:
        if not self._exists:
            return b""
        if self._file is not None:
            return self._file.read(0, self._file.size_bytes)
        return self._disk.read_file(self._path)

    def _open_to_write(self) -> File:
        if self._file is None:
            count = self.count - len(self._unwritten) // self._entry_bytes
            self._file = self._disk.open(self._path, create=True)
            self._exists = True
            if self._file.size_bytes != count * self._entry_bytes:
                # Half an entry that a crash left behind.
                self._file.truncate(count * self._entry_bytes)
        return self._file


_OFFSET_ENTRY = Struct(">ii")


class OffsetIndex:
    """Entries are read into memory with the first look-up: an idle log holds none."""

    __slots__ = ("_base_offset", "_offsets", "_positions", "entries_max", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, size_bytes_max: int, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _OFFSET_ENTRY.size, exists=exists)
        self._base_offset = base_offset
        self.entries_max = size_bytes_max // _OFFSET_ENTRY.size
        self._offsets: array[int] | None = None
        self._positions: array[int] | None = None

    @property
    def is_full(self) -> bool:
        return self.file.count >= self.entries_max

    @property
    def entries_left(self) -> int:
        return self.entries_max - self.file.count

    @property
    def is_loaded(self) -> bool:
        return self._offsets is not None

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch at `position`, which ends with `last_offset`."""
        relative = last_offset - self._base_offset
        self.file.append(_OFFSET_ENTRY.pack(relative, position))
        if self._offsets is not None and self._positions is not None:
            self._offsets.append(relative)
            self._positions.append(position)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry whose batch ends at `offset` or before it."""
        offsets, positions = self._loaded()
        return self._entry(bisect_right(offsets, offset - self._base_offset) - 1, offsets, positions)

    def ceiling_position(self, offset: int) -> int | None:
        """The position of the first entry whose batch ends at `offset` or after it."""
        offsets, positions = self._loaded()
        slot = bisect_left(offsets, offset - self._base_offset)
        return positions[slot] if slot < len(positions) else None

    def floor_of_position(self, position: int) -> tuple[int, int] | None:
        """The (last offset, position) of the last entry that is not beyond `position`."""
        offsets, positions = self._loaded()
        return self._entry(bisect_right(positions, position) - 1, offsets, positions)

    def last(self) -> tuple[int, int] | None:
        offsets, positions = self._loaded()
        return self._entry(len(offsets) - 1, offsets, positions)

    def last_in_file(self) -> tuple[int, int] | None:
        """The same, read by itself."""
        data = self.file.read_last()
        if not data:
            return None
        relative, position = _OFFSET_ENTRY.unpack(data)
        return relative + self._base_offset, position

    def truncate(self, offset: int) -> None:
        """Keep the entries of batches that end before `offset`."""
        offsets, positions = self._loaded()
        count = bisect_left(offsets, offset - self._base_offset)
        if count < len(offsets):
            self.file.truncate(count)
            del offsets[count:], positions[count:]

    def clear(self) -> None:
        self.file.truncate(0)
        self.unload()

    def is_sane(self, segment_size_bytes: int) -> bool:
        """True if every entry comes after the one before it and points into the segment.

        A crash can leave zeros or old bytes where entries should be.
        """
        offsets, positions = self._loaded()
        return (
            all(map(lt, offsets, islice(offsets, 1, None)))
            and all(map(lt, positions, islice(positions, 1, None)))
            and (not positions or (offsets[0] >= 0 and positions[0] >= 0 and positions[-1] < segment_size_bytes))
        )

    def unload(self) -> None:
        self._offsets = self._positions = None

    def _entry(self, slot: int, offsets: array[int], positions: array[int]) -> tuple[int, int] | None:
        return None if slot < 0 else (offsets[slot] + self._base_offset, positions[slot])

    def _loaded(self) -> tuple[array[int], array[int]]:
        if self._offsets is None or self._positions is None:
            entries = array("i")
            entries.frombytes(self.file.read_all())
            if sys.byteorder == "little":
                entries.byteswap()
            self._offsets, self._positions = entries[0::2], entries[1::2]
        return self._offsets, self._positions


NO_TIMESTAMP = -1

_TIME_ENTRY = Struct(">qi")


class TimeIndex:
    """The time index. Only its last entry is kept in memory."""

    __slots__ = ("_base_offset", "_last", "entries_max", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, size_bytes_max: int, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _TIME_ENTRY.size, exists=exists)
        self._base_offset = base_offset
        # One entry is kept free for the last one, which is written when the segment is sealed.
        self.entries_max = size_bytes_max // _TIME_ENTRY.size - 1
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
                timestamp_ms, relative = _TIME_ENTRY.unpack_from(data, len(data) - _TIME_ENTRY.size)
                self._last = (timestamp_ms, relative + self._base_offset)
            else:
                self._last = (NO_TIMESTAMP, self._base_offset)
        return self._last

    def append_if_later(self, timestamp_ms: int, offset: int) -> None:
        if timestamp_ms > self.last[0]:
            self.file.append(_TIME_ENTRY.pack(timestamp_ms, offset - self._base_offset))
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
        """True if timestamps rise from entry to entry, and offsets do not fall, from the segment's base offset on."""
        before_ms, before_offset = NO_TIMESTAMP, self._base_offset
        for timestamp_ms, offset in self._entries():
            if timestamp_ms <= before_ms or offset < before_offset:
                return False
            before_ms, before_offset = timestamp_ms, offset
        return True

    def _entries(self) -> Iterator[tuple[int, int]]:
        base_offset = self._base_offset
        for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(self.file.read_all()):
            yield timestamp_ms, relative + base_offset
