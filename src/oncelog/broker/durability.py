"""Making logs durable: one sync serves everybody who waits.

Small tails go to the write-ahead log, whose one sync makes the tails of any number of partitions durable; large ones, new
files and indexes are synced where they are. A write-ahead log's file that has grown is retired: the logs that it stood
for are synced themselves, one after the other, and then it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.coordination import Parked
from oncelog.environment import Disk, DiskError, Syncable
from oncelog.log import Entry, PartitionLog, SyncPoint, WriteAheadLog

TAIL_BYTES_MAX = 64 * 1024
"""More than this is not worth writing twice."""
WRITE_AHEAD_BYTES_MAX = 16 * 1024 * 1024


class _Generation:
    """One file of the write-ahead log, and the logs whose tails are in it."""

    __slots__ = ("logs", "write_ahead")

    def __init__(self, write_ahead: WriteAheadLog) -> None:
        self.write_ahead = write_ahead
        self.logs: dict[PartitionLog, None] = {}


class Durability:
    """`on_failure` is told of a disk that cannot keep what was written; the broker then stops."""

    def __init__(self, disk: Disk, directory: str, on_failure: Callable[[DiskError], None]) -> None:
        """The write-ahead logs that a crash left in `directory` have been replayed and removed."""
        self._disk = disk
        self._directory = directory
        self._on_failure = on_failure
        self._current = _Generation(WriteAheadLog(disk, directory, 0))
        self._retiring: _Generation | None = None
        self._retired: Parked[None] = Parked.ready(None)

    def make_durable(self, logs: Iterable[PartitionLog]) -> Parked[None]:
        """Release when everything that is in the logs now would survive a power cut."""
        durable: Parked[None] = Parked()
        journaled: list[tuple[PartitionLog, int]] = []
        synced: list[tuple[PartitionLog, SyncPoint]] = []
        files: list[Syncable] = []
        for log in logs:
            if log.is_durable:
                continue
            if self._journal(log):
                journaled.append((log, log.log_end_offset))
            else:
                synced.append((log, log.sync_point()))
                files.extend(log.unsynced_files())
        if journaled:
            files.extend(self._write_ahead_files())

        def done() -> None:
            for log, end in journaled:
                log.journaled_up_to(end)
            for log, point in synced:
                log.synced_up_to(point)
            durable.release(None)

        self._sync(files, done)
        if self._current.write_ahead.size_bytes >= WRITE_AHEAD_BYTES_MAX:
            self.retire()
        return durable

    def retire(self) -> Parked[None]:
        """Sync every log whose tail is only in the write-ahead log, and begin a new file of that; release when it is done."""
        if self._retiring is None and self._current.logs:
            self._retired = Parked()
            self._retiring = self._current
            number = self._retiring.write_ahead.number + 1
            self._current = _Generation(WriteAheadLog(self._disk, self._directory, number))
            self._sync_next(list(self._retiring.logs))
        return self._retired

    def close(self) -> None:
        """Remove the write-ahead log: every log is closed, and durable in its own files."""
        for generation in (self._retiring, self._current):
            if generation is not None:
                generation.write_ahead.file.close()
                self._disk.remove(generation.write_ahead.path)

    def _journal(self, log: PartitionLog) -> bool:
        """Put the log's tail into the write-ahead log if that is enough to make it durable."""
        tail = log.take_tail(TAIL_BYTES_MAX)
        if tail is None:
            return False
        if tail.data:
            self._current.logs[log] = None
            self._current.write_ahead.append(Entry(log.topic_id, log.partition, tail))
        return True

    def _write_ahead_files(self) -> list[Syncable]:
        """What has to be synced for every entry so far. An entry is worth nothing without those before it."""
        if self._retiring is None:
            return [self._current.write_ahead.file]
        return [self._retiring.write_ahead.file, self._current.write_ahead.file]

    def _sync_next(self, logs: list[PartitionLog]) -> None:
        """One log at a time, so that commits do not queue behind them all."""
        retiring = self._retiring
        assert retiring is not None
        if not logs:
            retiring.write_ahead.file.close()
            self._disk.remove(retiring.write_ahead.path)
            self._retiring = None
            self._retired.release(None)
            return
        log = logs.pop()
        point = log.sync_point()

        def done() -> None:
            log.synced_up_to(point)
            self._sync_next(logs)

        self._sync(list(log.unsynced_files()), done)

    def _sync(self, files: list[Syncable], done: Callable[[], None]) -> None:
        def synced(error: DiskError | None) -> None:
            if error is not None:
                # Whoever waits stays parked: no answer is better than one that a power cut makes false.
                self._on_failure(error)
                return
            done()

        self._disk.sync(files, synced)
