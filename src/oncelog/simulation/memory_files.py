"""The files of the disk in memory, their contents and their names, and the part of both that a power cut leaves.

Files appear, move and go in the order in which the broker asked for it, and no later than the next sync of any file, as on a
journaling file system. Each directory of the root is a file system of its own: the order between two of them is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

SECTOR_BYTES = 512


class FileContent:
    """One file: its bytes as processes see them, as they are on the medium, and the writes in between."""

    __slots__ = ("data", "durable", "modified_ms", "synced", "writes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.synced = 0
        self.writes: list[tuple[int, bytes | None]] = []
        self.modified_ms = 0

    def write(self, position: int, data: bytes | None) -> None:
        """Without data, end the file there."""
        _apply(self.data, position, data)
        self.writes.append((position, data))

    def sync(self) -> None:
        self.sync_up_to(self.written)

    @property
    def written(self) -> int:
        """How many writes there were."""
        return self.synced + len(self.writes)

    def sync_up_to(self, written: int) -> None:
        """Make the first so many writes durable."""
        count = max(0, written - self.synced)
        for position, data in self.writes[:count]:
            _apply(self.durable, position, data)
        del self.writes[:count]
        self.synced += count

    def crash(self, random: Random) -> None:
        """Choose what the medium has of the writes that were not synced."""
        kept = random.choice(("none", "all", "torn", "sectors"))
        writes = list(self.writes)
        survivor = FileContent()
        survivor.data[:] = self.durable
        if kept == "torn" and writes:
            writes = writes[: random.randrange(len(writes)) + 1]
            position, last = writes[-1]
            if last is not None:
                writes[-1] = (position, last[: random.randrange(len(last) + 1)])
        for position, data in writes if kept != "none" else ():
            survivor.write(position, data)
        if kept == "sectors":
            survivor._lose_sectors(random, self.durable)
        self.data = survivor.data
        self.durable = bytearray(self.data)
        self.synced += len(self.writes)
        self.writes.clear()

    def _lose_sectors(self, random: Random, durable: bytearray) -> None:
        for start in range(0, len(self.data), SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, len(self.data))
            old = durable[start:end]
            if self.data[start:end] != old and random.random() < 0.3:
                self.data[start:end] = old + bytes(end - start - len(old))


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    content.extend(bytes(max(0, position - len(content))))
    if data is not None:
        content[position : position + len(data)] = data


NameChange = Callable[[dict[str, FileContent]], None]


class FileNames:
    """`files` has what each name is of, as processes see it, and `durable` the same on the medium."""

    __slots__ = ("_changes", "_directories", "_kept", "_moved_directories", "durable", "files")

    def __init__(self) -> None:
        self.files: dict[str, FileContent] = {}
        self.durable: dict[str, FileContent] = {}
        self._changes: dict[str, list[NameChange]] = {}
        """The changes of each file system that are not durable yet."""
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
        """The names directly inside a directory."""
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
