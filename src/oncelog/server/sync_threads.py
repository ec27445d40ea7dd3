"""A few threads for what blocks on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from oncelog.environment import DiskError, Syncable
from oncelog.server.syncs import Done, FileSync

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
