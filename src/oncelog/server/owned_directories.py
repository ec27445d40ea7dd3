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

    __slots__ = ("_prefix", "_watched")

    def __init__(self, path: str) -> None:
        self._prefix = f"{path}/"
        self._watched: tuple[_Watched, ...] = ()

    def has(self, path: str) -> bool:
        return path.startswith(self._prefix)

    def watch(self, path: str, found: os.stat_result, remedy: str) -> None:
        """The file is there as long as the directory is owned. `remedy` says what to do where it is not."""
        self._watched = (*self._watched, _Watched(path, found.st_dev, found.st_ino, remedy))

    def give_back(self) -> None:
        """Look for nothing any more."""
        self._watched = ()

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
