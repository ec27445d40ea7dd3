"""The repeated work of a broker: time out transactions, forget what expired, delete old segments, flush."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.slices import Slices
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.disk_space import DiskSpace
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise, sleep, start
from oncelog.environment import Clock, DiskError
from oncelog.log import PartitionLog

PRODUCER_ID_CHECK_INTERVAL_MS = 600_000
FLUSH_CHECK_INTERVAL_MS = 1000
ROOM_CHECK_INTERVAL_MS = 1000
INTERVAL_MIN_MS = 50
"""However short a setting says: the broker is there for its clients."""
READ_AGAIN_BYTES = 1024 * 1024 * 1024
"""About so much a start after a crash has to read again, of all logs together: some seconds, if it is small batches."""
SNAPSHOT_INTERVAL_BYTES = 64 * 1024 * 1024
SNAPSHOT_INTERVAL_BYTES_MIN = 1024 * 1024
"""For one log. Less is read again faster than it is made durable."""
GROWTH_BYTES_MAX = 512 * 1024 * 1024
"""Logs that have grown do not wait for the next checkpoint when this is what they have grown by together."""


class Housekeeping:
    """Repeated work on the broker's own clock; each kind at its own interval, counted from when it was done before."""

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        survives: Callable[[DiskError], bool],
        disk_space: DiskSpace,
        offsets: CommittedOffsets,
        transactions: Transactions,
        upkeep: LogUpkeep,
        of_metadata: Mapping[Callable[[], Promise[None] | None], int],
    ) -> None:
        """`survives` is told of a disk that fails, and says whether the broker goes on without it.

        `of_metadata` is work of the metadata's own, with its interval in milliseconds.
        """
        self._clock = clock
        self._survives = survives
        number = settings.number
        work: dict[Callable[[], Promise[None] | None], int] = {
            **of_metadata,
            transactions.abort_timed_out: number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            transactions.expire_ids: number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            offsets.expire: number("offsets.retention.check.interval.ms"),
            upkeep.delete_old_segments: number("log.retention.check.interval.ms"),
            upkeep.expire_producers: PRODUCER_ID_CHECK_INTERVAL_MS,
            upkeep.checkpoint: number("log.flush.offset.checkpoint.interval.ms"),
            upkeep.flush: FLUSH_CHECK_INTERVAL_MS,
            disk_space.look_for_room: ROOM_CHECK_INTERVAL_MS,
        }
        self._tasks = [start(self._repeat(interval_ms, kind)) for kind, interval_ms in work.items()]

    def stop(self) -> None:
        for task in self._tasks:
            task.end()

    async def _repeat(self, interval_ms: int, work: Callable[[], Promise[None] | None]) -> None:
        while True:
            await sleep(self._clock, max(interval_ms, INTERVAL_MIN_MS))
            try:
                under_way = work()
            except DiskError as error:
                if not self._survives(error):
                    return
                continue
            if under_way is not None:
                await under_way


class LogUpkeep:
    """The work on all logs: retention, forgetting producers, syncing what has grown."""

    def __init__(
        self, checkpoints: Checkpoints, clock: Clock, durability: Durability, slices: Slices, topics: Topics
    ) -> None:
        self._checkpoints = checkpoints
        self._clock = clock
        self._durability = durability
        self._slices = slices
        self._topics = topics

    def _for_each_log(self, work: Callable[[PartitionLog], object]) -> Promise[None]:
        """There may be many: in slices."""

        def attempts() -> Iterator[None]:
            for partition in self._topics.partitions():
                try:
                    work(partition.log)
                except DiskError as error:
                    self._topics.failed(partition, error)
                yield

        return self._slices.run(attempts())

    def delete_old_segments(self) -> Promise[None]:
        return start(self._leave_and_delete())

    async def _leave_and_delete(self) -> None:
        """Make the log start offsets durable before a file goes. They may have moved on by then, which is not durable yet."""
        now_ms = self._clock.now_ms()
        begins: dict[PartitionLog, int] = {}

        def leave(log: PartitionLog) -> None:
            log.retention.leave_expired(now_ms)
            if log.retention.has_left:
                begins[log] = log.log_start_offset

        await self._for_each_log(leave)
        if begins:
            await self._checkpoints.write()
            await self._for_each_log(lambda log: log.retention.delete_left(begins.get(log, 0)))

    def expire_producers(self) -> Promise[None]:
        return self._for_each_log(lambda log: log.expire_producers(self._clock.now_ms()))

    def checkpoint(self) -> Promise[None]:
        return start(self._sync_and_checkpoint())

    async def _sync_and_checkpoint(self) -> None:
        """Sync first the logs that have grown, and what only the write-ahead log has: little is left to be read again."""
        grown: list[PartitionLog] = []
        interval_bytes = self._snapshot_interval_bytes()

        def look_at(log: PartitionLog) -> None:
            if log.files.growth_bytes >= interval_bytes:
                log.files.take_snapshot()
                grown.append(log)

        await self._for_each_log(look_at)
        await self._durability.make_durable_in_turn(grown)
        await self._durability.retire()
        await self._checkpoints.write()

    def _snapshot_interval_bytes(self) -> int:
        """How much of a log a start may have to read again."""
        count = sum(len(topic.partitions) for topic in self._topics)
        share_bytes = max(READ_AGAIN_BYTES // max(count, 1), SNAPSHOT_INTERVAL_BYTES_MIN)
        return min(share_bytes, SNAPSHOT_INTERVAL_BYTES)

    def flush(self) -> Promise[None]:
        return start(self._flush_due())

    async def _flush_due(self) -> None:
        """Make durable what flush.messages and flush.ms do not let wait any longer, and segments that were sealed."""
        now_ms, growth_bytes = self._clock.now_ms(), 0
        interval_bytes = self._snapshot_interval_bytes()
        due: list[PartitionLog] = []

        def look_at(log: PartitionLog) -> None:
            nonlocal growth_bytes
            if log.durability.has_rolled or log.durability.needs_flush(now_ms):
                due.append(log)
            if log.files.growth_bytes >= interval_bytes:
                growth_bytes += log.files.growth_bytes

        await self._for_each_log(look_at)
        await self._durability.make_durable(due)
        if growth_bytes >= GROWTH_BYTES_MAX:
            await self._sync_and_checkpoint()
