"""Open files of the log, within a budget of descriptors.

A log has many files and uses few of them at a time. A file that was not used for a while is closed, and opened again when it is
needed; its holders do not notice.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from time import monotonic
from typing import NoReturn, TypeVar

from typing_extensions import Buffer

from oncelog.environment import DiskError, DiskFullError, MakeRoom, Share, Syncable
from oncelog.server.file_paths import FilePaths, OwnedDirectory
from oncelog.server.sync_threads import begin_write_back

VECTOR_CHUNKS_MAX = 1000
LOOKED_AT_MAX = 64
"""So many files are looked at for each one that is opened."""
SYNCED_AT_ONCE_MAX = 32
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LOOKED_AT_AFTER_S = 0.1
"""A file that is written to is looked for at its path, no more often than this: it may be gone, and writing goes on."""
QUIET_S = 0.002
"""After a pause it is looked for nevertheless: where nobody writes a look holds nobody up, and all may be gone meanwhile."""

Synced = Callable[[DiskError | None], None]


T = TypeVar("T")


def fail(what: str, path: str, error: OSError) -> NoReturn:
    raise DiskError(f"cannot {what} {path}: {error.strerror or error}", path) from error


def sync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OpenFiles:
    """The files of one disk, of which at most `open_max` have a descriptor.

    One that was written since its last sync keeps its descriptor until it is synced. On Linux a sync through a new descriptor
    covers what was written through an old one (man 2 fsync), but an error met in between, while the file is written back, is
    told to nobody if the kernel forgets the inode before the file is opened again. `sync` makes files durable on other
    threads; it is asked to when three quarters of the budget are taken. Where even that comes too late, the caller waits.
    """

    def __init__(self, open_max: int, sync: Callable[[Sequence[Syncable], Synced], None]) -> None:
        self._open_max = open_max
        self._sync = sync
        self._is_syncing = False
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self.paths = FilePaths()
        self.owned: list[OwnedDirectory] = []
        self.appended_s = 0.0
        """When something was last appended to any file."""
        self.when_full: MakeRoom = lambda path, share: False
        self.kept_below: tuple[str, ...] = ()
        """Prefixes of paths at which only what may take some of what is kept back is written."""
        self._room_lock = threading.Lock()
        self.lock = threading.Lock()
        """Held while a descriptor is closed, or taken by a thread that is to use it: its number may soon be another file's."""

    @property
    def count(self) -> int:
        return len(self._open)

    def make_room(self, path: str, share: Share) -> bool:
        """One thread after the other: what the first makes may be enough for the next."""
        with self._room_lock:
            return self.when_full(path, share)

    def open(self, path: str, flags: int) -> int:
        self._limit()
        while True:
            try:
                return os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno in NO_ROOM and self.make_room(path, Share.ALL):
                    continue
                # Others of this process take descriptors, too.
                if error.errno not in NO_DESCRIPTORS or not self._open:
                    fail("open", path, error)
            self._close_one()

    def check_room(self, path: str, share: Share) -> None:
        """Raises DiskFullError where all that is free is kept for others."""
        if share is Share.NONE and path.startswith(self.kept_below):
            raise DiskFullError(f"cannot write to {path}: {os.strerror(errno.ENOSPC)}", path)

    def with_room(self, what: str, path: str, write: Callable[[], T], share: Share = Share.ALL) -> T:
        """Do what may need room, again as long as some is made. Done twice it is as if it was done once."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in NO_ROOM or not self.make_room(path, share):
                    fail(what, path, error)

    def owner_of(self, path: str) -> OwnedDirectory | None:
        """The log directory that a path is in."""
        return next((one for one in self.owned if one.has(path)), None)

    def look(self, path: str) -> None:
        """Raise DiskError if the log directory that has the path may be another's by now."""
        owner = self.owner_of(path)
        if owner is not None:
            owner.look()

    def opened(self, file: RealFile) -> None:
        self._open[file] = None

    def closed(self, file: RealFile) -> None:
        self._open.pop(file, None)

    def _limit(self) -> None:
        if self.count < self._open_max * 3 // 4:
            return
        if not self._close_unused(LOOKED_AT_MAX):
            self._begin_syncs()
        while self.count >= self._open_max:
            self._close_one()

    def _close_unused(self, count_max: int) -> bool:
        """Close the first of the next `count_max` files that was not used since it was last looked at; False without one."""
        for file in list(islice(self._open, count_max)):
            if file.may_be_closed and not file.is_recent:
                self._release(file)
                return True
            file.is_recent = False
            self._open.move_to_end(file)
        return False

    def _close_one(self) -> None:
        """Close any file, if need be after a sync that the caller waits for."""
        if self._close_unused(LOOKED_AT_MAX) or self._close_unused(LOOKED_AT_MAX):
            return
        file = next(iter(self._open))
        file.sync()
        self._release(file)

    def _release(self, file: RealFile) -> None:
        del self._open[file]
        file.release()

    def _begin_syncs(self) -> None:
        if self._is_syncing:
            return
        written = [file for file in islice(self._open, LOOKED_AT_MAX) if not file.may_be_closed]
        if written:
            self._is_syncing = True
            self._sync(written[:SYNCED_AT_ONCE_MAX], self._synced)

    def _synced(self, error: DiskError | None) -> None:
        self._is_syncing = False
        if error is not None:
            raise error


class RealFile:
    """One file. Its size is kept here: nobody else writes to it while the data directory is locked."""

    __slots__ = (
        "_created",
        "_descriptor",
        "_files",
        "_identity",
        "_is_closed",
        "_looked_at_s",
        "_owner",
        "_pins",
        "_size_bytes",
        "_synced",
        "_writes",
        "is_recent",
        "path",
        "was_removed",
    )

    def __init__(self, files: OpenFiles, path: str, *, create: bool) -> None:
        self._files = files
        self.path = path
        self._owner = files.owner_of(path)
        self._created = create and not os.path.exists(path)
        if self._created and self._owner is not None:
            self._owner.look()
        self._descriptor = files.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            fail("look at", path, error)
        self._size_bytes = found.st_size
        self._identity = (found.st_dev, found.st_ino)
        self._looked_at_s = monotonic()
        self.was_removed = False
        self._is_closed = False
        self._pins = 0
        # Counted when they are done: a sync on another thread vouches for no more than it found. What an earlier process
        # wrote may not be durable, although nothing was written since.
        self._writes = int(self._created)
        self._synced = -1
        self.is_recent = True
        files.opened(self)
        files.paths.add(self)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def may_be_closed(self) -> bool:
        """True if nothing was written since the last sync, and no thread uses the descriptor."""
        return self._writes <= max(self._synced, 0) and not self._pins

    @property
    def _is_wanted(self) -> bool:
        """True if a sync of the file was requested. It may be closed or removed while a thread syncs it."""
        return not (self._is_closed or self._files.paths.has_removed(self))

    def append(self, chunks: Sequence[Buffer], share: Share = Share.ALL) -> int:
        descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
        self.is_recent = True
        position = self._size_bytes
        total = sum(map(len, chunks))  # type: ignore[arg-type]
        if self._files.kept_below:
            self._files.check_room(self.path, share)
        now_s = monotonic()
        if now_s - self._looked_at_s > LOOKED_AT_AFTER_S or now_s - self._files.appended_s > QUIET_S:
            self._look()
        try:
            written = os.pwritev(descriptor, chunks, position) if len(chunks) <= VECTOR_CHUNKS_MAX else 0
            if written != total:
                _write_rest(descriptor, b"".join(chunks), position, written)
        except OSError as error:
            self._cut_back(descriptor, position)
            if error.errno in NO_ROOM:
                if self._files.make_room(self.path, share):
                    return self.append(chunks, share)
                if share is not Share.ALL:
                    raise DiskFullError(f"cannot append to {self.path}: {error.strerror}", self.path) from error
            fail(f"append {total} bytes at {position} to", self.path, error)
        self._size_bytes = position + total
        self._writes += 1
        self._files.appended_s = now_s
        return position

    def read(self, position: int, size_bytes: int) -> bytes:
        descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
        self.is_recent = True
        try:
            data = os.pread(descriptor, size_bytes, position)
            while len(data) < size_bytes and position + len(data) < self._size_bytes:
                more = os.pread(descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            fail(f"read {size_bytes} bytes at {position} of", self.path, error)
        return data

    def write(self, position: int, data: Buffer, share: Share = Share.ALL) -> None:
        view = memoryview(data).cast("B")
        if not view.nbytes:
            return
        self._files.check_room(self.path, share)
        descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
        self.is_recent = True
        what = f"write {len(view)} bytes at {position} to"
        self._files.with_room(what, self.path, lambda: _write_rest(descriptor, view, position, 0), share)
        self._size_bytes = max(self._size_bytes, position + len(view))
        self._writes += 1

    def truncate(self, size_bytes: int) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
        self.is_recent = True
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError as error:
            fail(f"truncate to {size_bytes} bytes", self.path, error)
        self._size_bytes = size_bytes
        self._writes += 1

    def write_back(self, position: int, size_bytes: int) -> None:
        # Without a descriptor the file is closed, or durable.
        descriptor = self._pin()
        if descriptor >= 0:
            begin_write_back(descriptor, position, size_bytes)
            self._unpin(descriptor)

    def sync(self) -> None:
        """A file that is closed needs no sync: it was synced for somebody else before, or its topic was deleted."""
        writes, is_there = self._writes, True
        if self._is_closed or self._synced == writes:
            return
        descriptor = self._pin()
        try:
            if descriptor >= 0:
                os.fdatasync(descriptor)
                is_there = os.fstat(descriptor).st_nlink > 0
            else:
                self._sync_through_another()
            if self._created:
                sync_directory(self._files.paths.open_directory(self))
                self._created = False
        except OSError as error:
            if self._is_wanted:
                fail("make durable", self.path, error)
        finally:
            self._unpin(descriptor)
        if not is_there and self._is_wanted:
            raise DiskError(f"{self.path} was removed by somebody else", self.path)
        if self._owner is not None:
            self._owner.look()
        self._synced = writes

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._files.closed(self)
            self._files.paths.discard(self)
            self.release()

    def release(self) -> None:
        """Give the descriptor back; until the file is closed, it takes another when it needs one."""
        with self._files.lock:
            descriptor, self._descriptor = self._descriptor, -1
            is_free = descriptor >= 0 and not self._pins
        if is_free:
            os.close(descriptor)

    def _open_again(self) -> int:
        if self._is_closed:
            raise DiskError(f"cannot use {self.path}: it is closed", self.path)
        self._descriptor = self._files.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._files.opened(self)
        self._look()
        return self._descriptor

    def _look(self) -> None:
        """Raise DiskError unless this very file is at its path: who removed it, or its directory, told nobody."""
        if self._owner is not None:
            self._owner.look()
        try:
            found = os.stat(self.path)
        except OSError as error:
            fail("find", self.path, error)
        if (found.st_dev, found.st_ino) != self._identity:
            raise DiskError(f"{self.path} is another file than it was", self.path)
        self._looked_at_s = monotonic()

    def _sync_through_another(self) -> None:
        """Nothing was written since the file was opened, but an earlier process may have left something."""
        descriptor = self._files.paths.open(self)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _cut_back(self, descriptor: int, size_bytes: int) -> None:
        """Half of an append must not stay behind: a later one would be written after it."""
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError as error:
            fail(f"truncate to {size_bytes} bytes", self.path, error)

    def _pin(self) -> int:
        """The descriptor, which stays the file's until `_unpin`."""
        with self._files.lock:
            if self._descriptor >= 0:
                self._pins += 1
            return self._descriptor

    def _unpin(self, descriptor: int) -> None:
        if descriptor < 0:
            return
        with self._files.lock:
            self._pins -= 1
            is_free = not self._pins and self._descriptor != descriptor
        if is_free:
            os.close(descriptor)


def _write_rest(descriptor: int, data: Buffer, position: int, written: int) -> None:
    view = memoryview(data)
    while written < len(view):
        written += os.pwrite(descriptor, view[written:], position + written)
