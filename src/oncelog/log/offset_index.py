"""`.index`: where in a segment an offset is. A sparse list, one entry for every few kilobytes of batches.

0   offset i32       of the last record of a batch, less the segment's base offset
4   position i32     of that batch
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt
from struct import Struct

from oncelog.environment import Disk
from oncelog.log.entry_file import EntryFile

_ENTRY = Struct(">ii")


class OffsetIndex:
    """Entries are read into memory with the first look-up: an idle log holds none."""

    __slots__ = ("_base_offset", "_offsets", "_positions", "entries_max", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, size_bytes_max: int, *, exists: bool) -> None:
        self.file = EntryFile(disk, path, _ENTRY.size, exists=exists)
        self._base_offset = base_offset
        self.entries_max = size_bytes_max // _ENTRY.size
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
        self.file.append(_ENTRY.pack(relative, position))
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
        relative, position = _ENTRY.unpack(data)
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
        """Whether every entry comes after the one before it and points into the segment.

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
