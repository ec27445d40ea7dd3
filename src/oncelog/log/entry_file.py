"""A file of fixed-size entries, as all of a segment's indexes are. It comes into being with its first entry."""

from __future__ import annotations

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
