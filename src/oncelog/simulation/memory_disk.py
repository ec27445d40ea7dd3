"""A disk in memory that can lose its power.

Bytes that were not synced are lost at a crash, or kept, or torn: whole writes, half writes, sectors of zeros where the
device never wrote. Names are lost, too (`memory_files.py`). The seed decides everything that may happen either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.environment import DirectoryInUseError, DiskError, DiskFullError, MakeRoom, Share, Syncable
from oncelog.simulation.memory_files import FileContent, FileNames, NameChange, moving, naming, removing, volume_of

SPACE_BYTES = 10**12
NAME_BYTES_MAX = 255


class SyncMark(NamedTuple):
    """A file as it was when somebody asked for it to be durable."""

    path: str
    node: FileContent
    written: int
    names: int


class MemoryFile:
    """An open file. After a crash it belongs to a process that is gone."""

    __slots__ = ("_disk", "_life", "_node", "_path", "is_open")

    def __init__(self, disk: MemoryDisk, path: str, node: FileContent) -> None:
        self._disk = disk
        self._life = disk.life
        self._node = node
        self._path = path
        self.is_open = True
        disk.open_files += 1

    @property
    def path(self) -> str:
        return self._path

    @property
    def size_bytes(self) -> int:
        return len(self._node.data)

    def append(self, chunks: Sequence[Buffer], share: Share = Share.ALL) -> int:
        position = len(self._node.data)
        self._write(position, b"".join(chunks), share)
        return position

    def read(self, position: int, size_bytes: int) -> bytes:
        self._check()
        self._disk.asked(self._path)
        with memoryview(self._node.data) as content:
            data = bytes(content[position : position + size_bytes])
        self._disk.bytes_read += len(data)
        self._disk.reads += 1
        return data

    def write(self, position: int, data: Buffer, share: Share = Share.ALL) -> None:
        self._write(position, bytes(data), share)

    def _write(self, position: int, data: bytes, share: Share) -> None:
        self._check()
        if not data:
            return
        self._disk.changed(self._path)
        self._disk.take_room(self._path, len(data), share)
        self._node.write(position, data)
        self._node.modified_ms = self._disk.now_ms()

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._disk.changed(self._path)
        self._node.write(size_bytes, None)

    def write_back(self, position: int, size_bytes: int) -> None:
        """A hint without effect: the seed decides what a crash leaves of the bytes, with it and without."""
        self._disk.written_back.append((position, size_bytes))

    def sync(self) -> None:
        self.sync_as_of(self.mark())

    def sync_as_of(self, mark: SyncMark) -> None:
        """Make it durable as it was. Closed files are durable as they are: nobody waits for what was deleted."""
        if self.is_open:
            self._check()
            self._disk.syncs += 1
            self._disk.changed(self._path)
            self._disk.sync_up_to(mark)

    def mark(self) -> SyncMark:
        return SyncMark(self._path, self._node, self._node.written, self._disk.names.changes(self._path))

    def close(self) -> None:
        if self.is_open:
            self._disk.open_files -= 1
        self.is_open = False

    def _check(self) -> None:
        assert self._life == self._disk.life, f"{self._path} was opened before the crash"
        assert self.is_open, f"{self._path} is closed"


class MemoryLock:
    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class MemoryDisk:
    """`space_bytes` is how much may still be written before the disk is full; None for no limit.

    `failing` are the directories of the root whose disk answers with errors.
    """

    def __init__(self, seed: int = 0, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.life = 0
        self.space_bytes: int | None = None
        self.failing: set[str] = set()
        self.syncs = self.reads = self.bytes_read = self.open_files = 0
        self._make_room: MakeRoom = lambda path, share: False
        self._kept_below: tuple[str, ...] = ()
        self.written_back: list[tuple[int, int]] = []
        self.locked: set[str] = set()
        self._boots = 0
        self._random = Random(seed)
        self.names = FileNames()

    def lose_by(self, random: Random) -> None:
        """Draw from these numbers what a power cut takes."""
        self._random = random

    def crash(self) -> None:
        """Cut the power: what was not synced is lost, or torn, and open files are open no more."""
        self.kill()
        self._boots += 1
        self.names.crash(self._random)

    def replace(self) -> None:
        """Another disk is in its place, with nothing on it."""
        self.kill()
        self.names.clear()

    def kill(self) -> None:
        """End the process alone: what it wrote stays with the operating system, synced or not."""
        self.life += 1
        self.open_files = 0
        self._kept_below = ()
        self.locked.clear()

    def when_full(self, make_room: MakeRoom) -> None:
        self._make_room = make_room

    def keep_room_in(self, directories: Sequence[str]) -> None:
        self._kept_below = tuple(f"{directory}/" for directory in directories)

    def take_room(self, path: str, size_bytes: int, share: Share) -> None:
        """Take the room that a write needs."""
        if share is Share.NONE and path.startswith(self._kept_below):
            raise DiskFullError(f"cannot write {size_bytes} bytes to {path}: no space left on device", path)
        while self.space_bytes is not None and self.space_bytes < size_bytes:
            if not self._make_room(path, share):
                kind = DiskError if share is Share.ALL else DiskFullError
                raise kind(f"cannot write {size_bytes} bytes to {path}: no space left on device", path)
        if self.space_bytes is not None:
            self.space_bytes -= size_bytes

    def allocate(self, path: str, size_bytes: int) -> None:
        """A file that is as durable as its name."""
        node = self.names.files.get(path)
        before = 0 if node is None else len(node.data)
        if self.space_bytes is not None:
            if self.space_bytes < size_bytes - before:
                raise DiskFullError(f"cannot keep {size_bytes} bytes back in {path}: no space left on device", path)
            self.space_bytes -= size_bytes - before
        if not size_bytes:
            self.remove(path)
            return
        if node is None:
            node = FileContent()
            self._change(path, naming(path, node))
        node.data = bytearray(size_bytes)
        node.durable = bytearray(size_bytes)

    def asked(self, path: str) -> None:
        """The process is about to read something. Raises DiskError if the disk fails."""
        if self.failing and f"/{volume_of(path)}" in self.failing:
            raise DiskError(f"cannot use {path}: Input/output error", path)

    def changed(self, path: str) -> None:
        """The process is about to change something. Raises DiskError if the disk fails."""
        self.asked(path)

    def sync_up_to(self, mark: SyncMark) -> None:
        """Make durable what a file, and the names beside it, were at that mark."""
        mark.node.sync_up_to(mark.written)
        self.names.keep(mark.path, mark.names)

    def commit_names(self) -> None:
        """Keep the names as they are now, on every file system."""
        self.names.keep_all()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.asked(path)
        node = self.names.files.get(path)
        if node is None:
            if not create:
                raise DiskError(f"cannot open {path}: No such file or directory", path)
            _check_name(path)
            node = FileContent()
            node.modified_ms = self.now_ms()
            self._change(path, naming(path, node))
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self.names.exists(path)

    def list_directory(self, path: str) -> list[str]:
        self.asked(path)
        if not self.names.is_directory(path):
            raise DiskError(f"cannot list {path}: No such file or directory", path)
        return self.names.inside(path)

    def make_directory(self, path: str) -> None:
        _check_name(path)
        self.changed(path)
        self.names.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        if not self.exists(source):
            raise DiskError(f"cannot rename {source}: No such file or directory", source)
        _check_name(target)
        if self.names.is_directory(target) and self.names.has_files(target):
            raise DiskError(f"cannot rename {source}: Directory not empty", source)
        self._change(source, moving(source, target))
        self.names.move_directory(source, target)

    def remove(self, path: str) -> None:
        self._change(path, removing(path))
        self.names.remove_directory(path)

    def modified_ms(self, path: str) -> int:
        self.asked(path)
        return self._node(path).modified_ms

    def read_file(self, path: str) -> bytes:
        self.asked(path)
        data = bytes(self._node(path).data)
        self.bytes_read += len(data)
        self.reads += 1
        return data

    def replace_file(self, path: str, data: bytes) -> None:
        self.take_room(path, len(data), Share.ALL)
        node = FileContent()
        node.write(0, data)
        node.sync()
        node.modified_ms = self.now_ms()
        self._change(path, naming(path, node))
        self.names.keep(path, self.names.changes(path))

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        for file in files:
            file.sync()
        done(None)

    def sync_all(self, files: Sequence[Syncable]) -> None:
        for file in files:
            file.sync()

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        try:
            work()
        except DiskError as error:
            done(error)
        else:
            done(None)

    def finish_background(self) -> None:
        """Nothing goes on beside: what is to come later does not come when the process has ended."""

    def space(self, path: str) -> tuple[int, int]:
        self.asked(path)
        if self.space_bytes is not None:
            return SPACE_BYTES, self.space_bytes
        used = sum(len(node.data) for node in self.names.files.values())
        return SPACE_BYTES, SPACE_BYTES - used

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def lock(self, path: str) -> MemoryLock:
        if path in self.locked:
            raise DirectoryInUseError(f"{path} is in use by another process")
        self.locked.add(path)
        return MemoryLock(self, path)

    def watch(self, path: str, remedy: str) -> None:
        """Nobody else is there who could remove it."""

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Change bytes on the medium, as a device that fails without saying so."""
        node = self._node(path)
        node.data[position : position + len(data)] = data
        node.durable[position : position + len(data)] = data

    def flip(self, path: str, position: int, bit: int) -> Callable[[], None]:
        """Change a bit on the medium; what is returned changes it back, unless the byte was written meanwhile."""
        node = self._node(path)
        changed = node.data[position] ^ bit

        def restore() -> None:
            for content in (node.data, node.durable):
                if position < len(content) and content[position] == changed:
                    content[position] ^= bit

        self.damage(path, position, bytes((changed,)))
        return restore

    def paths(self) -> list[str]:
        """Every file."""
        return list(self.names.files)

    def _node(self, path: str) -> FileContent:
        if path not in self.names.files:
            raise DiskError(f"cannot read {path}: No such file or directory", path)
        return self.names.files[path]

    def _change(self, path: str, change: NameChange) -> None:
        self.changed(path)
        self.names.change(path, change)


def _check_name(path: str) -> None:
    if len(path.rpartition("/")[2].encode()) > NAME_BYTES_MAX:
        raise DiskError(f"cannot make {path}: File name too long", path)
