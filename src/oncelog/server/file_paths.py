"""The paths of the real disk: which open files are in use at which paths, and which directories this process owns."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from oncelog.environment import DiskError


class Placed(Protocol):
    path: str
    was_removed: bool
    """Set once this disk took the file away: nobody asks any more that it be durable."""


class FilePaths:
    """Threads make files durable by their paths while others rename and remove them: each finds a path before or after."""

    def __init__(self) -> None:
        self._by_directory: dict[str, dict[Placed, None]] = {}
        self._lock = threading.Lock()

    def add(self, file: Placed) -> None:
        with self._lock:
            self._add(file)

    def discard(self, file: Placed) -> None:
        with self._lock:
            self._discard(file)

    def removing(self, path: str) -> None:
        """A file, or a directory with all that is in it, is about to be taken away."""
        with self._lock:
            self._forget(self._at(path) + self._below(path))

    def has_removed(self, file: Placed) -> bool:
        with self._lock:
            return file.was_removed

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or a directory of files, and take away the file whose place it takes."""
        with self._lock:
            replaced, moved = self._at(target), self._at(source) + self._below(source)
            os.replace(source, target)
            self._forget(replaced)
            for file in moved:
                self._discard(file)
                file.path = target + file.path[len(source) :]
                self._add(file)

    def open(self, file: Placed) -> int:
        """Another descriptor of the file."""
        with self._lock:
            return os.open(file.path, os.O_RDWR | os.O_CLOEXEC)

    def open_directory(self, file: Placed) -> int:
        """A descriptor of the directory that the file is in."""
        with self._lock:
            return os.open(os.path.dirname(file.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _add(self, file: Placed) -> None:
        self._by_directory.setdefault(os.path.dirname(file.path), {})[file] = None

    def _discard(self, file: Placed) -> None:
        directory = os.path.dirname(file.path)
        files = self._by_directory.get(directory, {})
        files.pop(file, None)
        if not files:
            self._by_directory.pop(directory, None)

    def _forget(self, files: Iterable[Placed]) -> None:
        for file in files:
            file.was_removed = True
            self._discard(file)

    def _at(self, path: str) -> list[Placed]:
        return [file for file in self._by_directory.get(os.path.dirname(path), ()) if file.path == path]

    def _below(self, path: str) -> list[Placed]:
        """The files in a directory, however deep."""
        return [file for directory, _, _ in os.walk(path) for file in self._by_directory.get(directory, ())]


class _Watched(NamedTuple):
    path: str
    device: int
    inode: int
    remedy: str


# A removed lock file lets another broker in, and a removed journal takes the topics from the next start. The kernel tells
# nobody, so the files are looked for: after each sync, before a small file is replaced, and now and then between appends.
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
        """The same for a file that the caller holds open."""
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
