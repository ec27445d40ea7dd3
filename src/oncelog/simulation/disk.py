"""The disk of a simulated node: kills between its operations, flipped bits in old files, and their repair."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from oncelog.broker.storage.journal import FILE_NAME
from oncelog.environment import DiskError, Syncable
from oncelog.log import read_own_checkpoint
from oncelog.records import CorruptBatchError, batches
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
    """A disk on which a write is durable once a sync that was requested after it has finished. Later writes may be
    lost.

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


SEGMENT = re.compile(r"(?P<directory>/[^/]+)/(?P<topic>[^/]+)-(?P<partition>\d+)/(?P<base>\d{20})\.log")
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
BASE_OFFSET_BYTES = 8


class BitFlips:
    """Only what is below the recovery point that is on the disk is changed: after a kill, what comes behind it may be torn,
    and to cut it off is right.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        self._restore: list[Callable[[], None]] = []
        self._restore_journal: list[Callable[[], None]] = []
        self.have_been = False
        """True if there ever was a flipped bit: a cleaning may have copied it."""

    def flip(self, random: Random) -> bool:
        """Change one bit of a record's segment. False where there is none to be changed, or the disk does not answer."""
        try:
            candidates = self._closed_segments()
            if not candidates:
                return False
            path = random.choice(candidates)
            position = random.randrange(len(self._disk.read_file(path)))
            if self._is_of_an_offset(path, position):
                return False
        except DiskError:
            return False
        self.have_been = True
        self._restore.append(self._disk.flip(path, position, 1 << random.randrange(8)))
        return True

    def flip_journal(self, random: Random, home: str) -> bool:
        """Change one bit of what the last checkpoint counts on. Behind that a line that is broken may be torn."""
        try:
            checkpoint = read_own_checkpoint(self._disk, home)
        except DiskError:
            return False
        if checkpoint is None or not checkpoint.journal_bytes:
            return False
        position, bit = random.randrange(checkpoint.journal_bytes), 1 << random.randrange(8)
        self._restore_journal.append(self._disk.flip(f"{home}/{FILE_NAME}", position, bit))
        return True

    def restore_journal(self) -> None:
        restore, self._restore_journal = self._restore_journal, []
        for one in restore:
            one()

    def _is_of_an_offset(self, path: str, position: int) -> bool:
        """No checksum covers the base offset of a batch, and a process does not look again at what it has written or checked."""
        try:
            starts = [start for start, _ in batches(self._disk.read_file(path))]
        except CorruptBatchError:
            return True
        return any(start <= position < start + BASE_OFFSET_BYTES for start in starts)

    def restore(self) -> bool:
        """Change back what is still there. False where nothing was changed."""
        restore, self._restore = self._restore, []
        for one in restore:
            one()
        return bool(restore)

    def _closed_segments(self) -> list[str]:
        """The segments with bytes, below the recovery point of their log."""
        found: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
        for path in self._disk.paths():
            match = SEGMENT.fullmatch(path)
            if match is not None:
                log = match["directory"], match["topic"], match["partition"]
                found.setdefault(log, []).append((int(match["base"]), path))
        closed: list[str] = []
        for (directory, topic, partition), segments in sorted(found.items()):
            segments.sort()
            synced = self._recovery_points(directory).get(f"{topic} {partition}", 0)
            closed += [path for (_, path), (end, _) in pairwise(segments) if end <= synced]
        return [path for path in closed if self._disk.read_file(path)]

    def _recovery_points(self, directory: str) -> dict[str, int]:
        path = f"{directory}/{RECOVERY_POINTS}"
        if not self._disk.exists(path):
            return {}
        rows = (
            line.rsplit(" ", 1) for line in self._disk.read_file(path).decode().splitlines() if line.count(" ") == 2
        )
        return {log: int(offset) for log, offset in rows}
