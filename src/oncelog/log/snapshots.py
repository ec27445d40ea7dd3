"""The producer snapshots of one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog.environment import Disk, File
from oncelog.log.names import DELETED, SNAPSHOT, offset_name, offset_of
from oncelog.log.producer_snapshot import DamagedSnapshotError, decode_snapshot, encode_snapshot
from oncelog.log.producers import ProducerStateEntry

# Between two segment boundaries: the newest, and the one before it until the newest is durable.
BETWEEN_SEGMENTS_KEPT = 2


class Snapshots:
    __slots__ = ("_damaged", "_directory", "_disk", "_offsets")

    def __init__(self, disk: Disk, directory: str, names: Collection[str]) -> None:
        self._disk = disk
        self._directory = directory
        found = (offset_of(name, SNAPSHOT) for name in names)
        self._offsets = sorted(offset for offset in found if offset is not None)
        self._damaged: list[int] = []

    @property
    def latest_offset(self) -> int:
        """0 if there is none: a log begins with no producers."""
        return self._offsets[-1] if self._offsets else 0

    @property
    def names(self) -> list[str]:
        return [offset_name(offset, SNAPSHOT) for offset in self._offsets]

    def continue_in(self, directory: str) -> None:
        """Go on with copies of the files."""
        self._directory = directory

    def newest(self, offset_max: int) -> tuple[int, list[ProducerStateEntry]] | None:
        """The newest whole snapshot not beyond `offset_max`. Those that are damaged on the way to it count no more."""
        for offset in tuple(reversed(self._offsets)):
            if offset > offset_max:
                continue
            try:
                return offset, decode_snapshot(self._disk.read_file(self._path(offset)))
            except DamagedSnapshotError:
                self._offsets.remove(offset)
                self._damaged.append(offset)
        return None

    def remove_damaged(self) -> int:
        """Remove the files of those that `newest` found to be damaged, but what was written anew; return how many were."""
        for offset in self._damaged:
            if offset not in self._offsets:
                self._disk.remove(self._path(offset))
        count = len(self._damaged)
        self._damaged.clear()
        return count

    def write(self, offset: int, producers: Iterable[ProducerStateEntry], segment_bases: Collection[int]) -> File:
        """Write a snapshot, and remove old ones that no segment begins with. The caller makes the file durable."""
        file = self._disk.open(self._path(offset), create=True)
        if file.size_bytes:
            file.truncate(0)
        file.append((encode_snapshot(producers),))
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()
        between = [one for one in self._offsets if one not in segment_bases]
        for old in between[:-BETWEEN_SEGMENTS_KEPT]:
            self._remove(old)
        return file

    def remove_above(self, offset: int) -> None:
        for one in [one for one in self._offsets if one > offset]:
            self._remove(one)

    def rename_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot at `offset`, if there is one, as deleted; return its new path."""
        if offset not in self._offsets:
            return []
        self._offsets.remove(offset)
        path = self._path(offset)
        self._disk.rename(path, path + DELETED)
        return [path + DELETED]

    def remove_all(self) -> None:
        self.remove_above(-1)

    def _remove(self, offset: int) -> None:
        self._offsets.remove(offset)
        self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT)}"
