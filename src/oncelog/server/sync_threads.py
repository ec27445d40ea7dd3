"""Making files durable: one call to the device serves all that wait for the same file, on a few threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from queue import SimpleQueue

from oncelog.environment import DiskError, Syncable

Done = Callable[[DiskError | None], None]


class _Ticket:
    """One caller's wish: so many files are not durable yet."""

    __slots__ = ("done", "error", "missing")

    def __init__(self, missing: int, done: Done) -> None:
        self.missing = missing
        self.done = done
        self.error: DiskError | None = None


class FileSync:
    """One file on its way: those who wait for the sync under way, and those who came after it had begun."""

    __slots__ = ("error", "file", "later", "started", "waiting")

    def __init__(self, file: Syncable, waiting: list[_Ticket]) -> None:
        self.file = file
        self.waiting = waiting
        self.later: list[_Ticket] = []
        self.started = False
        self.error: DiskError | None = None


class Syncs:
    """`start` begins a sync somewhere, sets `started` no later than it begins, and calls back on this thread."""

    def __init__(self, start: Callable[[FileSync, Callable[[FileSync], None]], None]) -> None:
        self._start = start
        self._under_way: dict[Syncable, FileSync] = {}

    def request(self, files: Sequence[Syncable], done: Done) -> None:
        """Call `done` when everything written to `files` so far is durable."""
        if not files:
            done(None)
            return
        ticket = _Ticket(len(files), done)
        for file in files:
            sync = self._under_way.get(file)
            if sync is None:
                self._begin(FileSync(file, [ticket]))
            elif sync.started:
                sync.later.append(ticket)
            else:
                # A sync that starts between the check and this line still covers what was written before the call.
                sync.waiting.append(ticket)

    def _finish(self, sync: FileSync) -> None:
        del self._under_way[sync.file]
        if sync.later:
            self._begin(FileSync(sync.file, sync.later))
        for ticket in sync.waiting:
            ticket.missing -= 1
            ticket.error = ticket.error or sync.error
            if ticket.missing == 0:
                ticket.done(ticket.error)

    def _begin(self, sync: FileSync) -> None:
        self._under_way[sync.file] = sync
        self._start(sync, self._finish)


SYNC_THREADS = 4

Task = Callable[[], None]


class SyncThreads:
    """Started when they are first needed. `call_back` brings a callback to the thread that owns the broker."""

    def __init__(self, call_back: Callable[[Task], object], on_bug: Callable[[BaseException], None]) -> None:
        self._call_back = call_back
        self._on_bug = on_bug
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def sync(self, sync: FileSync, finish: Callable[[FileSync], None]) -> None:
        def task() -> None:
            sync.started = True
            try:
                sync.file.sync()
            except DiskError as error:
                sync.error = error
            self._call_back(partial(finish, sync))

        self._put(task)

    def sync_all(self, files: Sequence[Syncable]) -> None:
        """Block until all are durable. Raises DiskError."""
        waiting: SimpleQueue[BaseException | None] = SimpleQueue()

        def task(file: Syncable) -> None:
            try:
                file.sync()
            except BaseException as error:  # noqa: BLE001 - who waits for it is told
                waiting.put(error)
            else:
                waiting.put(None)

        for file in files:
            self._put(partial(task, file))
        errors = [error for _ in files if (error := waiting.get()) is not None]
        if errors:
            raise errors[0]

    def run(self, work: Task, done: Done) -> None:
        def task() -> None:
            failure: DiskError | None = None
            try:
                work()
            except DiskError as error:
                failure = error
            self._call_back(partial(done, failure))

        self._put(task)

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _put(self, task: Task) -> None:
        if not self._threads:
            self._start()
        if self._threads:
            self._queue.put(task)
        else:
            self._do(task)

    def _start(self) -> None:
        """As many as the machine lets this process have; without any the caller does the work, for it has to be done."""
        for number in range(SYNC_THREADS):
            thread = threading.Thread(target=self._run, name=f"oncelog-sync-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return
            self._threads.append(thread)

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            self._do(task)

    def _do(self, task: Task) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - a thread that ends in silence leaves everybody waiting
            self._call_back(partial(self._on_bug, error))


SYNC_FILE_RANGE_WRITE = 2


def begin_write_back(descriptor: int, position: int, size_bytes: int) -> None:
    """A hint: it waits for nothing and makes nothing durable, and what goes wrong the next sync of the file reports."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, position, size_bytes, SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    # Not imported at start: few brokers ever append so much in a transaction that they come here.
    import ctypes

    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call  # type: ignore[no-any-return]
