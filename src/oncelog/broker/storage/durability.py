"""Making logs durable: one sync serves everybody who waits.

Small tails go to the write-ahead log, whose one sync makes the tails of any number of partitions durable; large ones, new
files and indexes are synced where they are. A write-ahead log's file that has grown is retired: the logs that it stood
for are synced themselves, one after the other, and then it is removed.

What the write-ahead log took first is durable first. That is how a decision and what it is about need one sync and not
two: the operating system may write the decision's own file out at any time, but after a power cut a log of decisions is
cut back to what the write-ahead log or the last checkpoint vouches for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncelog.coordination import Parked, start
from oncelog.environment import Disk, DiskError, Syncable
from oncelog.log import Entry, PartitionLog, SyncPoint, Tail, WriteAheadLog

TAIL_BYTES_MAX = 64 * 1024
"""More than this is not worth writing twice."""
WRITE_AHEAD_BYTES_MAX = 16 * 1024 * 1024


class _Generation:
    """One file of the write-ahead log, the logs whose tails are in it, and the logs of decisions that it vouches for."""

    __slots__ = ("logs", "vouched", "write_ahead")

    def __init__(self, write_ahead: WriteAheadLog) -> None:
        self.write_ahead = write_ahead
        self.logs: dict[PartitionLog, None] = {}
        self.vouched: dict[PartitionLog, SyncPoint] = {}

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
        self.over: Parked[None] = Parked()


class Durability:
    """`on_failure` is told of a disk that cannot keep what was written; the broker then stops."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        on_failure: Callable[[DiskError], None],
        *,
        number: int,
        has_decisions: Callable[[PartitionLog], bool],
    ) -> None:
        """`number` is larger than that of every write-ahead log that a crash left in `directory`.

        Logs of which `has_decisions` is true are cut back after a power cut to where they are known to be durable.
        """
        self._disk = disk
        self._directory = directory
        self._on_failure = on_failure
        self._has_decisions = has_decisions
        self._current = _Generation(WriteAheadLog(disk, directory, number))
        self._retiring: _Generation | None = None
        self._held: dict[PartitionLog, Parked[None]] = {}
        self._in_place: dict[PartitionLog, _SyncsUnderWay] = {}
        self._retired: Parked[None] = Parked.ready(None)

    def make_durable(self, logs: Iterable[PartitionLog]) -> Parked[None]:
        """Release when everything that is in the logs now would survive a power cut."""
        journaled: list[tuple[PartitionLog, int]] = []
        in_place: list[PartitionLog] = []
        for log in logs:
            if log.is_durable:
                continue
            if self._journal(log):
                journaled.append((log, log.log_end_offset))
            else:
                in_place.append(log)
        if not journaled and not in_place:
            return Parked.ready(None)
        durable = start(self._make_durable(journaled, in_place))
        if self._current.write_ahead.size_bytes >= WRITE_AHEAD_BYTES_MAX:
            self.retire()
        return durable

    async def _make_durable(self, journaled: list[tuple[PartitionLog, int]], in_place: list[PartitionLog]) -> None:
        """Both kinds at once. `journaled` says of each log up to which offset the write-ahead log has it."""
        files = start(self._sync_in_place(in_place)) if in_place else None
        if journaled:
            await self._sync_write_ahead()
            for log, end in journaled:
                log.journaled_up_to(end)
        if files is not None:
            await files

    def put_first(self, logs: Iterable[PartitionLog]) -> Parked[None]:
        """Release when no decision that is written from then on can survive a power cut without what is in the logs now."""
        return self.make_durable([log for log in logs if not log.is_durable and not self._journal(log)])

    def retire(self) -> Parked[None]:
        """Sync every log whose tail is only in the write-ahead log, and begin a new file of that; release when it is done."""
        if self._retiring is None and self._current.logs:
            retiring = self._retiring = self._current
            before = retiring.write_ahead
            self._current = _Generation(
                WriteAheadLog(self._disk, self._directory, before.number + 1, follows_bytes=before.size_bytes)
            )
            self._retired = start(self._retire(retiring))
        return self._retired

    async def leave_to_itself(self, log: PartitionLog) -> None:
        """Have the log's own files durable, and no write-ahead log that would put anything back into its sealed segments."""
        await self.make_durable([log])
        await self._retired
        if log in self._current.logs:
            await self.retire()

    async def make_durable_in_turn(self, logs: Iterable[PartitionLog]) -> None:
        """One log at a time, so that commits do not queue behind them all."""
        for log in logs:
            await self.make_durable([log])

    async def _retire(self, retiring: _Generation) -> None:
        """One log at a time, so that commits do not queue behind them all."""
        for log in list(retiring.logs):
            await self._sync_in_place([log])
        await self._vouch_again(retiring)
        # A power cut may bring the file back; with its end lost, what follows it would not be read.
        await self._sync([retiring.write_ahead.file])
        retiring.write_ahead.file.close()
        self._disk.remove(retiring.write_ahead.path)
        self._retiring = None

    async def _vouch_again(self, retiring: _Generation) -> None:
        """What the file has vouched for must not be cut back because the file is gone, and a checkpoint not yet written."""
        left = {log: point for log, point in retiring.vouched.items() if log not in self._current.vouched}
        for log, point in left.items():
            self._current.vouch(log, point)
        if left:
            await self._sync_write_ahead()

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
            self._current.write_ahead.append(Entry(log.topic_id, log.partition, log.log_end_offset, tail))
        return True

    def _sync_write_ahead(self) -> Parked[None]:
        """Sync every entry so far: one is worth nothing without those before it."""
        generations = (self._retiring, self._current)
        return self._sync([generation.write_ahead.file for generation in generations if generation is not None])

    async def hold(self, log: PartitionLog) -> None:
        """Let nobody sync the log's own files until `let_go`; come back when no such sync is under way.

        Meanwhile whoever waits for one waits on. What the write-ahead log takes of the log is durable as ever.
        """
        assert log not in self._held, "one holds it at a time"
        self._held[log] = Parked()
        while (under_way := self._in_place.get(log)) is not None:
            await under_way.over

    def let_go(self, log: PartitionLog) -> None:
        self._held.pop(log).release(None)

    async def _sync_in_place(self, logs: Sequence[PartitionLog]) -> None:
        """Sync the logs' own files; for logs of decisions, have the write-ahead log vouch for it."""
        while (held := next((self._held[log] for log in logs if log in self._held), None)) is not None:
            await held
        for log in logs:
            self._in_place.setdefault(log, _SyncsUnderWay()).count += 1
        try:
            await self._sync_own_files(logs)
        finally:
            for log in logs:
                self._one_is_over(log)

    def _one_is_over(self, log: PartitionLog) -> None:
        under_way = self._in_place[log]
        under_way.count -= 1
        if not under_way.count:
            del self._in_place[log]
            under_way.over.release(None)

    async def _sync_own_files(self, logs: Sequence[PartitionLog]) -> None:
        points = [(log, log.sync_point()) for log in logs]
        await self._sync([file for log in logs for file in log.unsynced_files()])
        decided = [(log, point) for log, point in points if self._has_decisions(log)]
        if decided:
            for log, point in decided:
                self._current.vouch(log, point)
            await self._sync_write_ahead()
        for log, point in points:
            log.synced_up_to(point)

    def _sync(self, files: list[Syncable]) -> Parked[None]:
        """Release when the files are durable, and never if the disk refuses: no answer is better than a false one."""
        durable: Parked[None] = Parked()

        def synced(error: DiskError | None) -> None:
            if error is None:
                durable.release(None)
            else:
                self._on_failure(error)

        self._disk.sync(files, synced)
        return durable
