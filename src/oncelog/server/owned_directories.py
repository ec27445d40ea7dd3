"""The log directories that this process has, and the files in them that have to stay at their paths while it has them.

Whoever removes a lock file lets another broker in, and whoever removes the journal takes the topics from the next start. Nobody
is told of either, so they are looked for: after each sync, before a small file is replaced, and now and then between appends.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from oncelog.environment import DiskError


class _Watched(NamedTuple):
    path: str
    device: int
    inode: int
    remedy: str


class OwnedDirectory:
    """Threads look while others watch more, and give the directory back: each sees the files before or after."""

    __slots__ = ("_descriptors", "_prefix", "_watched")

    def __init__(self, path: str) -> None:
        self._prefix = f"{path}/"
        self._watched: tuple[_Watched, ...] = ()
        self._descriptors: list[int] = []

    def has(self, path: str) -> bool:
        return path.startswith(self._prefix)

    def watch(self, path: str, remedy: str) -> None:
        """The file is there as long as the directory is owned. `remedy` says what to do where it is not. Raises OSError."""
        # While it is open no other file gets its inode.
        self._descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self.watch_open(path, self._descriptors[-1], remedy)

    def watch_open(self, path: str, descriptor: int, remedy: str) -> None:
        """The same of one that whoever calls holds open."""
        found = os.fstat(descriptor)
        self._watched = (*self._watched, _Watched(path, found.st_dev, found.st_ino, remedy))

    def give_back(self) -> None:
        """Look for nothing any more."""
        self._watched = ()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def look(self) -> None:
        """Raise DiskError unless each of the very files is at its path."""
        for path, device, inode, remedy in self._watched:
            try:
                found = os.stat(path)
            except OSError as error:
                happened = (
                    "was removed by somebody else" if _is_absence(error) else f"cannot be found: {error.strerror}"
                )
                raise DiskError(f"{path} {happened}: {remedy}", path) from error
            if found.st_ino != inode or found.st_dev != device:
                raise DiskError(f"{path} was replaced by another file: {remedy}", path)


def _is_absence(error: OSError) -> bool:
    return isinstance(error, (FileNotFoundError, NotADirectoryError))
