"""A disk that is read and never written, with the bytes that a start would put back from the write-ahead log, and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from typing_extensions import Buffer

from oncelog.environment import Disk, DiskError, File, Lock, MakeRoom, Share, Syncable

Patches = Mapping[str, Sequence[tuple[int, bytes]]]
"""By path: the bytes that are to be at a position, in the order in which they are put there."""


def _never() -> NoReturn:
    raise AssertionError("what is looked at is not changed")


class PatchedFile:
    """A file as it would be after its patches."""

    __slots__ = ("_file", "_patches", "size_bytes")

    def __init__(self, file: File, patches: Sequence[tuple[int, bytes]]) -> None:
        self._file = file
        self._patches = patches
        self.size_bytes = max([file.size_bytes, *(position + len(data) for position, data in patches)])

    @property
    def path(self) -> str:
        return self._file.path

    def read(self, position: int, size_bytes: int) -> bytes:
        end = min(position + size_bytes, self.size_bytes)
        if end <= position:
            return b""
        data = bytearray(self._file.read(position, end - position))
        data.extend(bytes(end - position - len(data)))
        for start, patch in self._patches:
            first, last = max(start, position), min(start + len(patch), end)
            if first < last:
                data[first - position : last - position] = patch[first - start : last - start]
        return bytes(data)

    def append(self, chunks: Sequence[Buffer], share: Share = Share.ALL) -> int:
        _never()

    def write(self, position: int, data: Buffer, share: Share = Share.ALL) -> None:
        _never()

    def truncate(self, size_bytes: int) -> None:
        _never()

    def write_back(self, position: int, size_bytes: int) -> None:
        _never()

    def sync(self) -> None:
        _never()

    def close(self) -> None:
        self._file.close()


class ReadOnlyDisk:
    """`open_file` opens a file to read it alone; without it the disk's own `open` does. Locks alone are taken and not only seen."""

    def __init__(
        self, disk: Disk, patches: Patches | None = None, open_file: Callable[[str], File] | None = None
    ) -> None:
        self._disk = disk
        self._patches = patches or {}
        self._open_file = open_file or disk.open

    def open(self, path: str, *, create: bool = False) -> File:
        assert not create, "what is looked at is not changed"
        file = self._open_file(path)
        patches = self._patches.get(path)
        return file if not patches else PatchedFile(file, patches)

    def with_patches(self, patches: Patches) -> ReadOnlyDisk:
        return ReadOnlyDisk(self._disk, patches, self._open_file)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return self._disk.list_directory(path)

    def read_file(self, path: str) -> bytes:
        patches = self._patches.get(path)
        if not patches:
            return self._disk.read_file(path)
        file = self.open(path)
        try:
            return file.read(0, file.size_bytes)
        finally:
            file.close()

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(path)

    def space(self, path: str) -> tuple[int, int]:
        return self._disk.space(path)

    def boot_id(self) -> str:
        return self._disk.boot_id()

    def when_full(self, make_room: MakeRoom) -> None:
        _never()

    def keep_room_in(self, directories: Sequence[str]) -> None:
        _never()

    def allocate(self, path: str, size_bytes: int) -> None:
        _never()

    def make_directory(self, path: str) -> None:
        _never()

    def rename(self, source: str, target: str) -> None:
        _never()

    def remove(self, path: str) -> None:
        _never()

    def replace_file(self, path: str, data: bytes) -> None:
        _never()

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        _never()

    def sync_all(self, files: Sequence[Syncable]) -> None:
        _never()

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        _never()

    def finish_background(self) -> None:
        _never()

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)

    def watch(self, path: str, remedy: str) -> None:
        _never()


CHUNK_BYTES = 64 * 1024


class FileLine(NamedTuple):
    """A line without its end; the last one may have none, and is not whole then."""

    position: int
    data: bytes
    is_whole: bool


def lines_of(disk: Disk, path: str) -> Iterator[FileLine]:
    file = disk.open(path)
    try:
        start, rest = 0, b""
        for position in range(0, file.size_bytes, CHUNK_BYTES):
            *whole, rest = (rest + file.read(position, CHUNK_BYTES)).split(b"\n")
            for data in whole:
                yield FileLine(start, data, True)
                start += len(data) + 1
        if rest:
            yield FileLine(start, rest, False)
    finally:
        file.close()
