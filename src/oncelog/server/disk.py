"""The real disk: plain files, positional reads and writes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from typing_extensions import Buffer

from oncelog.environment import DirectoryInUseError, DiskError, Syncable
from oncelog.server.sync_threads import SyncThreads
from oncelog.server.syncs import Syncs
from oncelog.server.write_back import begin_write_back

VECTOR_CHUNKS_MAX = 1000
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _fail(what: str, path: str, error: OSError) -> NoReturn:
    raise DiskError(f"cannot {what} {path}: {error.strerror or error}") from error


class RealFile:
    """One open file. Its size is kept here: nobody else writes to it while the data directory is locked."""

    __slots__ = ("_created", "_descriptor", "_path", "_size_bytes")

    def __init__(self, path: str, *, create: bool) -> None:
        self._path = path
        self._created = create and not os.path.exists(path)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
            self._size_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            _fail("open", path, error)

    @property
    def path(self) -> str:
        return self._path

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def append(self, chunks: Sequence[Buffer]) -> int:
        position = self._size_bytes
        total = sum(memoryview(chunk).nbytes for chunk in chunks)
        try:
            written = os.pwritev(self._descriptor, chunks, position) if len(chunks) <= VECTOR_CHUNKS_MAX else 0
            if written != total:
                self._write_rest(b"".join(chunks), position, written)
        except OSError as error:
            self._cut_back(position)
            _fail(f"append {total} bytes at {position} to", self._path, error)
        self._size_bytes = position + total
        return position

    def _write_rest(self, data: bytes, position: int, written: int) -> None:
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(self._descriptor, view[written:], position + written)

    def _cut_back(self, size_bytes: int) -> None:
        """Half of an append must not stay behind: a later one would be written after it."""
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError:
            return

    def read(self, position: int, size_bytes: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size_bytes, position)
            while len(data) < size_bytes and position + len(data) < self._size_bytes:
                more = os.pread(self._descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            _fail(f"read {size_bytes} bytes at {position} of", self._path, error)
        return data

    def write(self, position: int, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        if not view.nbytes:
            return
        done = 0
        try:
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], position + done)
        except OSError as error:
            _fail(f"write {len(view)} bytes at {position} to", self._path, error)
        self._size_bytes = max(self._size_bytes, position + len(view))

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            _fail(f"truncate to {size_bytes} bytes", self._path, error)
        self._size_bytes = size_bytes

    def write_back(self, position: int, size_bytes: int) -> None:
        # One that was closed meanwhile is -1, which the system call refuses.
        begin_write_back(self._descriptor, position, size_bytes)

    def sync(self) -> None:
        """A file that is closed needs no sync: it was synced for somebody else before, or its topic was deleted."""
        descriptor = self._descriptor
        if descriptor < 0:
            return
        try:
            os.fdatasync(descriptor)
            if self._created:
                _sync_directory(os.path.dirname(self._path))
                self._created = False
        except OSError as error:
            if self._descriptor < 0:
                return
            _fail("make durable", self._path, error)

    def close(self) -> None:
        # First it counts as closed: a sync on another thread must be able to tell why its descriptor is bad.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealLock:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            _fail("open the lock file", path, error)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            directory = os.path.dirname(path)
            raise DirectoryInUseError(
                f"the data directory {directory} is in use by another process; stop it, or choose another directory"
            ) from error

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """Files of this machine. `call_back` brings a callback from a sync thread to the thread that owns the broker.

    `on_bug` is told there of what no thread should ever raise.
    """

    def __init__(
        self,
        call_back: Callable[[Callable[[], None]], object],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._threads = SyncThreads(call_back, on_bug)
        self._syncs = Syncs(self._threads.sync)

    def __enter__(self) -> RealDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._threads.stop()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            _fail("list", path, error)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError as error:
            if not os.path.isdir(path):
                _fail("make the directory", path, error)
        except FileNotFoundError:
            self._make_directories(path)
        except OSError as error:
            _fail("make the directory", path, error)

    def _make_directories(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            _fail("make the directory", path, error)

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(source, target)
        except OSError as error:
            _fail(f"rename to {target}", source, error)

    def remove(self, path: str) -> None:
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            _fail("remove", path, error)

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            _fail("look at", path, error)

    def read_file(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            _fail("read", path, error)

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fdatasync(file.fileno())
            os.replace(temporary, path)
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            _fail("replace", path, error)

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        self._syncs.request(files, done)

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        self._threads.run(work, done)

    def space(self, path: str) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(path)
        except OSError as error:
            _fail("measure", path, error)
        return usage.total, usage.free

    def boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            # Without one every start counts as the first since a power cut, which is safe and fences more than it must.
            return os.urandom(16).hex()

    def lock(self, path: str) -> RealLock:
        return RealLock(path)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
