"""Writing down, of each log, how far it is known to be durable, where it begins, how far it is everybody's, and how far clean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from oncelog.broker.slices import Slices
from oncelog.broker.storage.journal import Journal
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Parked, start
from oncelog.environment import Disk, DiskError
from oncelog.log import LogDigest, LogDirectories, LogPoints, OwnCheckpoint, write_own_checkpoint


class _Checkpoint:
    """What one checkpoint says."""

    def __init__(self, disk: Disk, journal: Journal) -> None:
        self._disk = disk
        self._journal_bytes = journal.durable_bytes
        self._aborted: dict[tuple[UUID, int], LogDigest] = {}
        self._points: dict[tuple[str, int], LogPoints] = {}

    def look_at(self, topics: Topics) -> Iterator[None]:
        """One partition each step."""
        for partition in topics.every_partition():
            if not topics.is_being_deleted(partition.topic):
                self._points[partition.topic, partition.index] = partition.points()
                topic_id, digest = partition.digest()
                if digest is not None and (digest.indexes or digest.log_start_offset):
                    self._aborted[topic_id, partition.index] = digest
            yield

    def writing(self, directories: LogDirectories) -> Callable[[], None]:
        """What tells most comes first: it is never behind the others."""
        write_points = directories.checkpoint(self._points)
        own = OwnCheckpoint(self._journal_bytes, self._aborted)

        def write() -> None:
            write_own_checkpoint(self._disk, directories.home, own)
            write_points()

        return write


class Checkpoints:
    """One at a time: two would replace the same files at once. `on_failure` hears of a disk that cannot keep one."""

    def __init__(
        self,
        slices: Slices,
        disk: Disk,
        directories: LogDirectories,
        topics: Topics,
        journal: Journal,
        on_failure: Callable[[DiskError], None],
    ) -> None:
        self._slices = slices
        self._disk = disk
        self._directories = directories
        self._topics = topics
        self._journal = journal
        self._on_failure = on_failure
        self._under_way: Parked[None] = Parked.ready(None)
        self._next: Parked[None] | None = None

    def write(self) -> Parked[None]:
        """Write what is so from now on; release when it is on disk."""
        if self._next is None:
            self._next = Parked()
            start(self._write(self._next))
        return self._next or self._under_way

    def write_now(self) -> None:
        """At start and stop, when nobody else is served."""
        checkpoint = _Checkpoint(self._disk, self._journal)
        for _ in checkpoint.look_at(self._topics):
            pass
        checkpoint.writing(self._directories)()

    async def _write(self, written: Parked[None]) -> None:
        await self._under_way
        self._under_way, self._next = written, None
        checkpoint = _Checkpoint(self._disk, self._journal)
        await self._slices.run(checkpoint.look_at(self._topics))
        await self._in_background(checkpoint.writing(self._directories))
        written.release(None)

    def _in_background(self, work: Callable[[], None]) -> Parked[None]:
        over: Parked[None] = Parked()

        def done(error: DiskError | None) -> None:
            if error is None:
                over.release(None)
            else:
                self._on_failure(error)

        self._disk.in_background(work, done)
        return over
