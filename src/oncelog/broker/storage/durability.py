"""Making logs durable: one sync serves everybody who waits.

Small tails go to the write-ahead log, whose one sync makes the tails of any number of partitions durable; large ones, new
files and indexes are synced where they are. A write-ahead log's file that has grown is retired: the logs that it stood
for are synced themselves, one after the other, and then it is removed.

While a log directory is offline, the write-ahead log keeps what it has for the logs in there: the next start puts it back.

What the write-ahead log took first is durable first. That is how a decision and what it is about need one sync and not
two: the operating system may write the decision's own file out at any time, but after a power cut a log of decisions is
cut back to what the write-ahead log or the last checkpoint vouches for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from oncelog.broker.storage.group_sync import GroupSync
from oncelog.coordination import Promise, start
from oncelog.environment import Disk, DiskError, Syncable
from oncelog.log import (
    DataDirectory,
    Entry,
    LogDirectories,
    PartitionLog,
    SyncPoint,
    Tail,
    WriteAheadLog,
    keep_entries_of,
    taking_back,
)

TAIL_BYTES_MAX = 64 * 1024
"""More than this is not worth writing twice."""
WRITE_AHEAD_BYTES_MAX = 16 * 1024 * 1024

_KEPT, _LOST = Promise.ready(True), Promise.ready(False)


class _Generation:
    """One file of the write-ahead log, the logs whose tails are in it, and the logs of decisions that it vouches for."""

    __slots__ = ("logs", "vouched", "write_ahead")

    def __init__(self, write_ahead: WriteAheadLog) -> None:
        self.write_ahead = write_ahead
        self.logs: dict[PartitionLog, None] = {}
        self.vouched: dict[PartitionLog, SyncPoint] = {}

    def knows(self, log: PartitionLog) -> bool:
        return log in self.logs or log in self.vouched

    def vouch(self, log: PartitionLog, point: SyncPoint) -> None:
        """Say that the log's own files are durable up to there."""
        tail = Tail(point.segment_base_offset, point.segment_size_bytes, b"")
        self.write_ahead.append(Entry(log.topic_id, log.partition, point.log_end_offset, tail))
        self.vouched[log] = point


class _SyncsUnderWay:
    """How many syncs of a log's own files there are now."""

    __slots__ = ("count", "over")

    def __init__(self) -> None:
        self.count = 0
        self.over: Promise[None] = Promise()


class Durability:
    """`survives` is told of a disk that cannot keep what was written, and says whether the broker goes on without it."""

    def __init__(
        self,
        disk: Disk,
        directories: LogDirectories,
        survives: Callable[[DiskError], bool],
        *,
        number: int,
        has_decisions: Callable[[PartitionLog], bool],
    ) -> None:
        """`number` is larger than that of every write-ahead log that a crash left.

        Logs of which `has_decisions` is true are cut back after a power cut to where they are known to be durable.
        """
        self._disk = disk
        self._directories = directories
        self._survives = survives
        self._has_decisions = has_decisions
        self._current = _Generation(WriteAheadLog(disk, directories.home, number))
        self._retiring: _Generation | None = None
        self._held: dict[PartitionLog, Promise[None]] = {}
        self._in_place: dict[PartitionLog, _SyncsUnderWay] = {}
        self._retired: Promise[None] = Promise.ready(None)
        self._write_ahead_syncs = GroupSync(self._begin_write_ahead_sync)

    def make_durable(self, logs: Iterable[PartitionLog]) -> Promise[bool]:
        """Resolve when everything that is in the logs now would survive a power cut, with True.

        False: the directory of one of them is offline, and it was not durable before. The others are durable all the same.
        """
        journaled: list[tuple[PartitionLog, SyncPoint]] = []
        in_place: list[PartitionLog] = []
        are_kept = True
        for log in logs:
            if log.durability.is_complete:
                continue
            point = self._journal(log)
            if point is not None:
                journaled.append((log, point))
            elif self._is_lost(log):
                are_kept = False
            else:
                in_place.append(log)
        if not journaled and not in_place:
            return _KEPT if are_kept else _LOST
        if are_kept and not in_place:
            durable = self._sync_tails(journaled)
        else:
            durable = start(self._make_durable(journaled, in_place, are_kept=are_kept))
        if self._current.write_ahead.size_bytes >= WRITE_AHEAD_BYTES_MAX:
            self.retire()
        return durable

    async def _make_durable(
        self, journaled: list[tuple[PartitionLog, SyncPoint]], in_place: list[PartitionLog], *, are_kept: bool
    ) -> bool:
        """Both kinds at once. `journaled` says of each log up to where the write-ahead log has it."""
        files = start(self._sync_in_place(in_place)) if in_place else None
        if journaled:
            await self._sync_tails(journaled)
        if files is not None:
            are_kept &= await files
        return are_kept

    def _sync_tails(self, journaled: Sequence[tuple[PartitionLog, SyncPoint]]) -> Promise[bool]:
        """Sync what the write-ahead log has of these logs: they know of it before those who wait go on."""
        synced = self._sync_write_ahead()
        for log, point in journaled:
            synced.then(partial(_is_journaled, log, point))
        return synced

    def put_first(self, logs: Iterable[PartitionLog]) -> Promise[bool]:
        """Resolve when no decision that is written from then on can survive a power cut without what is in the logs now.

        False: it can, for the directory of one of them is offline.
        """
        left = [log for log in logs if not log.durability.is_complete and self._journal(log) is None]
        return self.make_durable(left) if left else _KEPT

    def write_out(self) -> None:
        """Have the write-ahead log's file outlive this process with all that the log has taken. Raises DiskError."""
        self._current.write_ahead.write_out()

    def retire(self) -> Promise[None]:
        """Sync every log whose tail is only in the write-ahead log, and begin a new file of that; resolves when it is done."""
        if self._retiring is None and self._current.logs:
            retiring = self._retiring = self._current
            before = retiring.write_ahead
            before.write_out()
            self._current = _Generation(
                WriteAheadLog(self._disk, self._directories.home, before.number + 1, follows_bytes=before.size_bytes)
            )
            self._retired = start(self._retire(retiring))
        return self._retired

    async def leave_to_themselves(self, logs: Sequence[PartitionLog]) -> None:
        """Have what is in the logs durable in their own files, and no write-ahead log that would put anything of it back."""
        await self.make_durable_in_turn(logs)
        await self._retired
        if any(log in self._current.logs for log in logs):
            await self.retire()

    async def take_back(self, ends: Mapping[PartitionLog, SyncPoint]) -> None:
        """Have the write-ahead log put back nothing of the logs that is beyond these ends, and vouch for nothing there.

        That is durable on return. Nobody appends to the logs, and none of them counts as durable beyond its end.
        """
        generations = [one for one in (self._retiring, self._current) if one is not None]
        known = {log: end for log, end in ends.items() if any(one.knows(log) for one in generations)}
        for log, end in known.items():
            position = end.segment_size_bytes
            self._current.write_ahead.append(
                taking_back(log.topic_id, log.partition, end.log_end_offset, end.segment_base_offset, position)
            )
            for one in generations:
                if log in one.vouched:
                    one.vouched[log] = min(one.vouched[log], end)
        if known:
            await self._sync_write_ahead()

    async def make_durable_in_turn(self, logs: Iterable[PartitionLog]) -> None:
        """One log at a time, so that commits do not queue behind them all."""
        for log in logs:
            await self.make_durable([log])

    async def _retire(self, retiring: _Generation) -> None:
        """One log at a time, so that commits do not queue behind them all."""
        for log in list(retiring.logs):
            await self._sync_in_place([log])
        await self._vouch_again(retiring)
        path, lost = retiring.write_ahead.path, self._lost_in(retiring)
        if lost:
            await self._in_background(partial(keep_entries_of, self._disk, path, lost))
        else:
            # A power cut may bring the file back; with its end lost, what follows it would not be read.
            await self._sync([retiring.write_ahead.file])
        retiring.write_ahead.file.close()
        if not lost:
            self._disk.remove(path)
        self._retiring = None

    def _lost_in(self, generation: _Generation) -> set[tuple[UUID, int]]:
        """The logs whose entries cannot be given up, for their directory is offline."""
        logs = (*generation.logs, *generation.vouched)
        return {(log.topic_id, log.partition) for log in logs if self._is_lost(log)}

    async def _vouch_again(self, retiring: _Generation) -> None:
        """Vouch again for what the file vouched for: until a checkpoint is written, a start must not cut it back."""
        left = {log: point for log, point in retiring.vouched.items() if log not in self._current.vouched}
        for log, point in left.items():
            self._current.vouch(log, point)
        if left:
            await self._sync_write_ahead()

    def close(self) -> None:
        """Remove the write-ahead log: every log is closed, and durable in its own files, but those that are offline."""
        for generation in (self._retiring, self._current):
            if generation is None:
                continue
            lost = self._lost_in(generation)
            if lost:
                generation.write_ahead.write_out()
            generation.write_ahead.file.close()
            if lost:
                keep_entries_of(self._disk, generation.write_ahead.path, lost)
            else:
                self._disk.remove(generation.write_ahead.path)

    def _journal(self, log: PartitionLog) -> SyncPoint | None:
        """Put the log's tail into the write-ahead log if that is enough to make it durable; return where the log ends."""
        try:
            taken = log.durability.take_tail(TAIL_BYTES_MAX, is_doubtful=self._is_lost(log))
        except DiskError as error:
            if not self._survives(error):
                raise
            return None
        if taken is None:
            return None
        tail, end = taken
        if tail.data:
            self._current.logs[log] = None
            self._current.write_ahead.append(Entry(log.topic_id, log.partition, end.log_end_offset, tail))
        return end

    def _is_lost(self, log: PartitionLog) -> bool:
        offline = self._directories.offline
        return bool(offline) and self._directories.of_path(log.directory) in offline

    def _sync_write_ahead(self) -> Promise[bool]:
        """Sync every entry so far: one is worth nothing without those before it."""
        return self._write_ahead_syncs.next()

    def _begin_write_ahead_sync(self) -> Promise[bool]:
        files: list[Syncable] = []
        for generation in (self._retiring, self._current):
            if generation is not None:
                generation.write_ahead.write_out()
                files.append(generation.write_ahead.file)
        return self._sync(files)

    async def hold(self, log: PartitionLog) -> None:
        """Let nobody sync the log's own files until `let_go`; come back when no such sync is under way.

        Meanwhile those who wait for one wait on. What the write-ahead log takes of the log is durable as ever. One holds a log
        at a time: it moves to another directory, or is cut off.
        """
        while (held := self._held.get(log)) is not None:
            await held
        self._held[log] = Promise()
        while (under_way := self._in_place.get(log)) is not None:
            await under_way.over

    def let_go(self, log: PartitionLog) -> None:
        self._held.pop(log).resolve(None)

    async def _sync_in_place(self, logs: Sequence[PartitionLog]) -> bool:
        """Sync the logs' own files; for logs of decisions, have the write-ahead log vouch for it.

        False if a directory turned out to have failed, or was offline: nothing is known of the logs in there.
        """
        while (held := next((self._held[log] for log in logs if log in self._held), None)) is not None:
            await held
        for log in logs:
            self._in_place.setdefault(log, _SyncsUnderWay()).count += 1
        try:
            return await self._sync_own_files(logs)
        finally:
            for log in logs:
                self._one_is_over(log)

    def _one_is_over(self, log: PartitionLog) -> None:
        under_way = self._in_place[log]
        under_way.count -= 1
        if not under_way.count:
            del self._in_place[log]
            under_way.over.resolve(None)

    async def _sync_own_files(self, logs: Sequence[PartitionLog]) -> bool:
        asked = len(logs)
        syncs = [start(self._sync_own(own)) for own in self._by_directory(logs)]
        points: dict[PartitionLog, SyncPoint] = {}
        for sync in syncs:
            points |= await sync
        if self._vouch(points):
            await self._sync_write_ahead()
        for log, point in points.items():
            log.durability.synced_up_to(point)
        return len(points) == asked

    def _vouch(self, points: Mapping[PartitionLog, SyncPoint]) -> bool:
        """Vouch for logs of decisions; True if there are any. What is cut off meanwhile is left out."""
        decided = [log for log in points if self._has_decisions(log)]
        for log in decided:
            point = log.durability.still_true(points[log])
            if point is not None:
                self._current.vouch(log, point)
        return bool(decided)

    def _by_directory(self, logs: Sequence[PartitionLog]) -> Iterable[list[PartitionLog]]:
        """Group the logs by directory: each disk keeps, or loses, its own."""
        if len(logs) == 1 or len(self._directories) == 1:
            return [list(logs)]
        found: dict[DataDirectory | None, list[PartitionLog]] = {}
        for log in logs:
            found.setdefault(self._directories.of_path(log.directory), []).append(log)
        return found.values()

    async def _sync_own(self, logs: Sequence[PartitionLog]) -> dict[PartitionLog, SyncPoint]:
        """Sync the logs of one directory in their own files; return where each is durable, nothing if the disk failed."""
        if self._is_lost(logs[0]):
            return {}
        points = {log: log.durability.sync_point() for log in logs}
        try:
            files = [file for log in logs for file in log.durability.unsynced_files()]
        except DiskError as error:
            if not self._survives(error):
                raise
            return {}
        return points if await self._sync(files) else {}

    def _sync(self, files: list[Syncable]) -> Promise[bool]:
        """Resolve when the files are durable, or with False when their directory is offline."""
        durable: Promise[bool] = Promise()
        self._disk.sync(files, partial(self._done, durable))
        return durable

    def _in_background(self, work: Callable[[], None]) -> Promise[bool]:
        over: Promise[bool] = Promise()
        self._disk.in_background(work, partial(self._done, over))
        return over

    def _done(self, over: Promise[bool], error: DiskError | None) -> None:
        """Never, if the broker does not go on: no answer is better than a false one."""
        if error is None:
            over.resolve(True)
        elif self._survives(error):
            over.resolve(False)


def _is_journaled(log: PartitionLog, point: SyncPoint, _: bool) -> None:
    log.durability.journaled_up_to(point)
