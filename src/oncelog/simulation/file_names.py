"""The names of the files of the disk in memory, and what a power cut leaves of them.

Files appear, move and go in the order in which that was asked for, but no later than the next sync of any file, as a
journaling file system does it. Each directory of the root is a file system of its own: in what order two of them keep
their names, nothing says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from oncelog.simulation.file_content import FileContent

NameChange = Callable[[dict[str, FileContent]], None]


class FileNames:
    """`files` has what each name is of, as processes see it, and `durable` the same on the medium."""

    __slots__ = ("_changes", "_directories", "_kept", "_moved_directories", "durable", "files")

    def __init__(self) -> None:
        self.files: dict[str, FileContent] = {}
        self.durable: dict[str, FileContent] = {}
        self._changes: dict[str, list[NameChange]] = {}
        """Of each file system: those that are not durable yet."""
        self._kept: dict[str, int] = {}
        self._directories: set[str] = set()
        self._moved_directories: list[tuple[str, str]] = []

    def change(self, path: str, change: NameChange) -> None:
        """Make a change on the file system that `path` is on; it is not durable yet."""
        change(self.files)
        self._changes.setdefault(volume_of(path), []).append(change)

    def changes(self, path: str) -> int:
        """How often names were changed so far on the file system that `path` is on."""
        volume = volume_of(path)
        return self._kept.get(volume, 0) + len(self._changes.get(volume, ()))

    def keep(self, path: str, count: int) -> None:
        """Make the first so many changes durable on the file system that `path` is on."""
        self._keep(volume_of(path), count)

    def keep_all(self) -> None:
        """Keep the names as they are now, on every file system."""
        for volume in list(self._changes):
            self._keep(volume, self.changes(f"/{volume}/"))

    def _keep(self, volume: str, count: int) -> None:
        changes = self._changes.get(volume, [])
        count = max(0, count - self._kept.get(volume, 0))
        for change in changes[:count]:
            change(self.durable)
        del changes[:count]
        self._kept[volume] = self._kept.get(volume, 0) + count

    def crash(self, random: Random) -> None:
        """Lose the last changes of each file system, and of each file what `FileContent.crash` loses."""
        for volume, changes in self._changes.items():
            for change in changes[: random.randrange(len(changes) + 1)]:
                change(self.durable)
            self._kept[volume] = self._kept.get(volume, 0) + len(changes)
        self._changes.clear()
        for content in self.durable.values():
            content.crash(random)
        self.files = dict(self.durable)
        for source, target in reversed(self._moved_directories):
            if self.has_files(source) and not self.has_files(target):
                self._directories.discard(target)
                self._directories.add(source)
        self._moved_directories.clear()
        # One that was removed is there again with its files.
        self._directories |= {name.rpartition("/")[0] for name in self.files}

    def clear(self) -> None:
        """Another disk is in its place, with nothing on it."""
        for names in (self.files, self.durable, self._changes):
            names.clear()
        self._directories.clear()
        self._moved_directories.clear()

    def exists(self, path: str) -> bool:
        return path in self.files or path in self._directories

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def has_files(self, directory: str) -> bool:
        return any(name.startswith(directory + "/") for name in self.files)

    def inside(self, directory: str) -> list[str]:
        """What a directory has directly in it."""
        prefix = directory + "/"
        names = [name for name in (*self.files, *self._directories) if name.startswith(prefix)]
        return sorted({name[len(prefix) :].split("/")[0] for name in names})

    def make_directory(self, path: str) -> None:
        self._directories.add(path)

    def move_directory(self, source: str, target: str) -> None:
        """If it is one; its files have moved."""
        if source in self._directories:
            self._directories.discard(source)
            self._directories.add(target)
            self._moved_directories.append((source, target))

    def remove_directory(self, path: str) -> None:
        """If it is one, with those in it."""
        self._directories = {one for one in self._directories if one != path and not one.startswith(path + "/")}


def naming(path: str, content: FileContent) -> NameChange:
    """A file appears, or takes the place of another one."""
    return lambda names: names.update({path: content})


def moving(source: str, target: str) -> NameChange:
    """A file, or what is in a directory, gets another name."""

    def move(names: dict[str, FileContent]) -> None:
        for name in _within(names, source):
            names[target + name[len(source) :]] = names.pop(name)

    return move


def removing(path: str) -> NameChange:
    """A file goes, or what is in a directory."""

    def remove(names: dict[str, FileContent]) -> None:
        for name in _within(names, path):
            del names[name]

    return remove


def _within(names: Mapping[str, FileContent], path: str) -> list[str]:
    """The file, or those in the directory."""
    if path in names:
        return [path]
    prefix = path + "/"
    return [name for name in names if name.startswith(prefix)]


def volume_of(path: str) -> str:
    """The directory of the root that a path begins with."""
    return path.split("/", 2)[1]
