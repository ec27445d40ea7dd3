"""The real disk: plain files, positional reads and writes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from oncelog.environment import DirectoryInUseError, DiskError, DiskFullError, MakeRoom, Syncable
from oncelog.server.descriptors import descriptor_budget
from oncelog.server.file_paths import FilePaths, OwnedDirectory
from oncelog.server.files import NO_ROOM, OpenFiles, RealFile, fail, sync_directory
from oncelog.server.sync_threads import Syncs, SyncThreads

LOCK_REMEDY = "another broker may use the directory by now, so start this one again when no other runs on it"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RealLock:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            fail("open the lock file", path, error)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other kind of lock is Java's: a broker of Apache Kafka has it.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            directory = os.path.dirname(path)
            raise DirectoryInUseError(
                f"the data directory {directory} is in use by another process; stop it, or choose another directory"
            ) from error

    def fileno(self) -> int:
        """For a process that is to hold the lock too: it is free when both have ended."""
        return self._descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DirectoryLock:
    """While it is held, nothing in its directory is durable once this very file is not at its path any more."""

    __slots__ = ("_files", "_lock", "_owned")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._lock = RealLock(path)
        self._owned = OwnedDirectory(os.path.dirname(path))
        # It is not opened once more: closing that would let go of Java's lock.
        self._owned.watch_open(path, self._lock.fileno(), LOCK_REMEDY)
        files.owned.append(self._owned)

    def release(self) -> None:
        if self._owned in self._files.owned:
            self._files.owned.remove(self._owned)
            self._owned.give_back()
        self._lock.release()


class RealDisk:
    """Files of this machine. `call_back` brings a callback from a sync thread to the thread that owns the broker.

    `on_bug` is told there of what no thread should ever raise. At most `open_files_max` files are open at a time.
    """

    def __init__(
        self,
        call_back: Callable[[Callable[[], None]], object],
        on_bug: Callable[[BaseException], None],
        open_files_max: int | None = None,
    ) -> None:
        self._threads = SyncThreads(call_back, on_bug)
        self._syncs = Syncs(self._threads.sync)
        self._files = OpenFiles(open_files_max or descriptor_budget().files, self._syncs.request)

    def __enter__(self) -> RealDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._threads.stop()

    def when_full(self, make_room: MakeRoom) -> None:
        self._files.when_full = make_room

    def keep_room_in(self, directories: Sequence[str]) -> None:
        self._files.kept_below = tuple(f"{directory}/" for directory in directories)

    def allocate(self, path: str, size_bytes: int) -> None:
        if not size_bytes:
            self.remove(path)
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _allocate(descriptor, size_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise DiskFullError(f"cannot keep {size_bytes} bytes back in {path}: {error.strerror}", path) from error
            fail(f"keep {size_bytes} bytes back in", path, error)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(self._files, path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            fail("list", path, error)

    def make_directory(self, path: str) -> None:
        self._files.with_room("make the directory", path, lambda: _make_directory(path))

    def rename(self, source: str, target: str) -> None:
        self._files.look(target)
        paths = self._files.paths
        self._files.with_room(f"rename to {target}", source, lambda: paths.rename(source, target))

    def remove(self, path: str) -> None:
        self._files.look(path)
        self._files.paths.removing(path)
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            fail("remove", path, error)

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            fail("look at", path, error)

    def read_file(self, path: str) -> bytes:
        try:
            with open(path, "rb", buffering=0) as file:
                return file.readall()
        except OSError as error:
            fail("read", path, error)

    def replace_file(self, path: str, data: bytes) -> None:
        self._files.look(path)
        paths = self._files.paths
        self._files.with_room("replace", path, lambda: _replace_file(paths, path, data))

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        self._syncs.request(files, done)

    def sync_all(self, files: Sequence[Syncable]) -> None:
        self._threads.sync_all(files)

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        self._threads.run(work, done)

    def finish_background(self) -> None:
        self._threads.stop()

    def space(self, path: str) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(path)
        except OSError as error:
            fail("measure", path, error)
        return usage.total, usage.free

    def boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            # Without one every start counts as the first since a power cut, which is safe and fences more than it must.
            return os.urandom(16).hex()

    def lock(self, path: str) -> DirectoryLock:
        return DirectoryLock(self._files, path)

    def watch(self, path: str, remedy: str) -> None:
        owner = self._files.owner_of(path)
        if owner is None:
            return
        try:
            owner.watch(path, remedy)
        except OSError as error:
            fail("open", path, error)


def _allocate(descriptor: int, size_bytes: int) -> None:
    """Reserve room for a file. Without room it keeps its length, which says how much it reserves."""
    before_bytes = os.fstat(descriptor).st_size
    if size_bytes < before_bytes:
        os.ftruncate(descriptor, size_bytes)
        return
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError:
        os.ftruncate(descriptor, before_bytes)
        raise


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)


def _replace_file(paths: FilePaths, path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())
    paths.rename(temporary, path)
    sync_directory(os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY))
