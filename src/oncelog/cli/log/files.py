"""The files of this machine, opened to be read alone: a copy on a medium that cannot be written will do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import Buffer

from oncelog.environment import DiskError, Share
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.server.disk import RealDisk


class FileToRead:
    """A file of this machine that nobody writes to meanwhile."""

    __slots__ = ("_descriptor", "path", "size_bytes")

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.size_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise DiskError(f"cannot open {path}: {error.strerror}") from error

    def read(self, position: int, size_bytes: int) -> bytes:
        chunks: list[bytes] = []
        try:
            while size_bytes > 0 and (data := os.pread(self._descriptor, size_bytes, position)):
                chunks.append(data)
                position += len(data)
                size_bytes -= len(data)
        except OSError as error:
            raise DiskError(f"cannot read {self.path} at byte {position}: {error.strerror}") from error
        return b"".join(chunks)

    def close(self) -> None:
        os.close(self._descriptor)

    def append(self, chunks: Sequence[Buffer], share: Share = Share.ALL) -> int:
        raise AssertionError(f"{self.path} is open to be read")

    def write(self, position: int, data: Buffer, share: Share = Share.ALL) -> None:
        raise AssertionError(f"{self.path} is open to be read")

    def truncate(self, size_bytes: int) -> None:
        raise AssertionError(f"{self.path} is open to be read")

    def write_back(self, position: int, size_bytes: int) -> None:
        raise AssertionError(f"{self.path} is open to be read")

    def sync(self) -> None:
        raise AssertionError(f"{self.path} is open to be read")


def _fail(error: BaseException) -> None:
    raise error


@contextmanager
def machine_disk() -> Iterator[RealDisk]:
    """The disk of this machine, for one thread."""
    with RealDisk(lambda callback: callback(), _fail) as disk:
        yield disk


@contextmanager
def disk_to_read() -> Iterator[ReadOnlyDisk]:
    with machine_disk() as disk:
        yield ReadOnlyDisk(disk, open_file=FileToRead)
