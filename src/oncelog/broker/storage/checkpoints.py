"""Checkpoints: recovery point, log start offset, high watermark and cleaned offset of each log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from oncelog.broker.slices import Slices
from oncelog.broker.storage.journal import Journal
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise, start
from oncelog.environment import Disk, DiskError
from oncelog.log import (
    LogDigest,
    LogDirectories,
    LogPoints,
    OwnCheckpoint,
    PartitionLog,
    write_own_checkpoint,
)


class _Checkpoint:
    """The content of one checkpoint."""

    def __init__(self, disk: Disk, journal: Journal, before: Mapping[tuple[UUID, int], LogDigest]) -> None:
        """`before` is what the last one said of each log: of one whose disk has failed it goes on saying that."""
        self._disk = disk
        self._before = before
        self._journal_bytes = journal.durable_bytes
        self._aborted: dict[tuple[UUID, int], LogDigest] = {}
        self._durable_ends: dict[tuple[UUID, int], int] = {}
        self._gaps_below: dict[tuple[UUID, int], int] = {}
        self._points: dict[tuple[str, int], LogPoints] = {}
        self._starts: dict[PartitionLog, int] = {}

    def look_at(self, topics: Topics) -> Iterator[None]:
        """One partition each step."""
        for partition in topics.every_partition():
            log = partition.topic_id, partition.index
            # One that is being deleted, too: until the journal says that it is gone, a start may find it.
            self._points[partition.topic, partition.index] = partition.points()
            digest = self._digest(partition)
            if digest is not None and (digest.indexes or digest.log_start_offset):
                self._aborted[log] = digest
            if digest is not None and partition.is_readable:
                start_offset = digest.log_start_offset
                if start_offset > partition.log.durable_start_offset:
                    self._starts[partition.log] = start_offset
            unopened = partition.unopened
            if unopened is not None and unopened.durable_end > unopened.points.recovery_point:
                self._durable_ends[log] = unopened.durable_end
            gaps_below = partition.log.files.gaps_below if unopened is None else unopened.gaps_below
            if gaps_below:
                self._gaps_below[log] = gaps_below
            yield

    def _digest(self, partition: Partition) -> LogDigest | None:
        if partition.unopened is None and partition.directory.is_offline:
            return self._before.get((partition.topic_id, partition.index))
        return partition.digest()

    def confirm_starts(self) -> None:
        """It is on disk, and with it where logs begin that began earlier before."""
        for log, offset in self._starts.items():
            log.start_is_durable(offset)

    @property
    def digests(self) -> Mapping[tuple[UUID, int], LogDigest]:
        return self._aborted

    def writing(self, directories: LogDirectories) -> Callable[[], None]:
        """Return the work that writes it. The file that tells most is written first: it is never behind the others."""
        write_points = directories.checkpoint(self._points)
        own = OwnCheckpoint(self._journal_bytes, self._aborted, self._durable_ends, self._gaps_below)

        def write() -> None:
            write_own_checkpoint(self._disk, directories.home, own)
            write_points()

        return write


class Checkpoints:
    """One at a time: two would replace the same files at once.

    `survives` is told of a disk that cannot keep one, and says whether the broker goes on without it.
    """

    def __init__(
        self,
        slices: Slices,
        disk: Disk,
        directories: LogDirectories,
        topics: Topics,
        journal: Journal,
        survives: Callable[[DiskError], bool],
        last: OwnCheckpoint | None,
    ) -> None:
        self._slices = slices
        self._disk = disk
        self._directories = directories
        self._topics = topics
        self._journal = journal
        self._survives = survives
        self._last = {} if last is None else last.aborted
        self._under_way: Promise[None] = Promise.ready(None)
        self._next: Promise[None] | None = None

    def write(self) -> Promise[None]:
        """Write what is so from now on; resolves when it is on disk."""
        if self._next is None:
            self._next = Promise()
            start(self._write(self._next))
        return self._next or self._under_way

    def write_now(self) -> None:
        """At start and stop, when nobody else is served."""
        checkpoint = _Checkpoint(self._disk, self._journal, self._last)
        for _ in checkpoint.look_at(self._topics):
            pass
        try:
            checkpoint.writing(self._directories)()
        except DiskError as error:
            if not self._survives(error):
                raise
            self.write_now()

    async def _write(self, written: Promise[None]) -> None:
        await self._under_way
        self._under_way, self._next = written, None
        is_written = False
        while not is_written:
            checkpoint = _Checkpoint(self._disk, self._journal, self._last)
            await self._slices.run(checkpoint.look_at(self._topics))
            # If a directory turns out to have failed, once more without it.
            is_written = await self._in_background(checkpoint.writing(self._directories))
            if is_written:
                self._last = checkpoint.digests
                checkpoint.confirm_starts()
        written.resolve(None)

    def _in_background(self, work: Callable[[], None]) -> Promise[bool]:
        over: Promise[bool] = Promise()

        def done(error: DiskError | None) -> None:
            if error is None:
                over.resolve(True)
            elif self._survives(error):
                over.resolve(False)

        self._disk.in_background(work, done)
        return over
