"""A disk that takes its time, fails, fills up, and ends its process between any two of its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from oncelog.environment import DiskError, Syncable
from oncelog.simulation.events import Process
from oncelog.simulation.memory_disk import MemoryDisk, MemoryFile, SyncMark

FAST_MS, LATE_MS, SLOW_MS = (0.05, 3.0), (0.05, 500.0), (50.0, 2_000.0)
Done = Callable[[DiskError | None], None]


class ProcessEndedError(BaseException):
    """The process is no more: nothing of it runs on. No code of the broker catches it."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class SimulatedDisk(MemoryDisk):
    """What was written before a sync was asked for is durable when it is answered; what came after, nobody knows.

    `operations_left` ends the process in the middle of what it does: after so many more changes of the disk.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        super().__init__(0, now_ms)
        self._latency = random
        self._process: Process | None = None
        self.are_threads_late = False
        """Work in the background then is done in another order than it was asked for."""
        self.slow_until_ms = 0.0
        self.operations_left: int | None = None

    def serve(self, process: Process) -> None:
        """From now on this process uses the disk."""
        self._process = process

    def changed(self, path: str) -> None:
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                self.operations_left = None
                assert self._process is not None, "nobody uses the disk"
                raise ProcessEndedError(self._process.node)
        super().changed(path)

    def sync(self, files: Sequence[Syncable], done: Done) -> None:
        if not files:
            done(None)
            return
        marks = [file.mark() for file in files if isinstance(file, MemoryFile)]
        others = [file for file in files if not isinstance(file, MemoryFile)]
        self._later("sync", FAST_MS, lambda: self._synced(marks, others), done)

    def in_background(self, work: Callable[[], None], done: Done) -> None:
        self._later("background", LATE_MS if self.are_threads_late else FAST_MS, work, done)

    def _synced(self, marks: Sequence[SyncMark], others: Sequence[Syncable]) -> None:
        for mark in marks:
            self.asked(mark.path)
            self.sync_up_to(mark)
        for other in others:
            other.sync()

    def _later(self, label: str, takes_ms: tuple[float, float], work: Callable[[], None], done: Done) -> None:
        assert self._process is not None, "nobody uses the disk"
        is_slow = self._process.queue.now_ms < self.slow_until_ms
        delay_ms = self._latency.uniform(*(SLOW_MS if is_slow else takes_ms))

        def finish() -> None:
            try:
                work()
            except DiskError as error:
                done(error)
            else:
                done(None)

        self._process.after(delay_ms, label, finish)
