"""What a broker does without being asked: time out transactions, forget what expired, delete old segments, flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from oncelog.coordination import Parked, sleep, start
from oncelog.environment import DiskError
from oncelog.log import PartitionLog

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.slices import Slices
    from oncelog.broker.storage.checkpoints import Checkpoints
    from oncelog.broker.storage.durability import Durability
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock

PRODUCER_ID_CHECK_INTERVAL_MS = 600_000
FLUSH_CHECK_INTERVAL_MS = 1000
INTERVAL_MIN_MS = 50
"""However short a setting says: the broker is there for its clients."""


class Needs(Protocol):
    """What of the broker is needed here."""

    checkpoints: Checkpoints
    clock: Clock
    durability: Durability

    def fail(self, error: BaseException) -> None: ...

    offsets: CommittedOffsets
    settings: Settings
    slices: Slices
    topics: Topics
    transactions: Transactions


class Housekeeping:
    """Repeated work on the broker's own clock; each kind at its own interval, counted from when it was done before."""

    def __init__(self, broker: Needs) -> None:
        self._broker = broker
        number = broker.settings.number
        work: dict[Callable[[], Parked[None] | None], int] = {
            broker.transactions.abort_timed_out: number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            broker.transactions.expire_ids: number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            broker.offsets.expire: number("offsets.retention.check.interval.ms"),
            self._delete_old_segments: number("log.retention.check.interval.ms"),
            self._expire_producers: PRODUCER_ID_CHECK_INTERVAL_MS,
            self._checkpoint: number("log.flush.offset.checkpoint.interval.ms"),
            self._flush: FLUSH_CHECK_INTERVAL_MS,
        }
        self._tasks = [start(self._repeat(interval_ms, kind)) for kind, interval_ms in work.items()]

    def stop(self) -> None:
        for task in self._tasks:
            task.end()

    async def _repeat(self, interval_ms: int, work: Callable[[], Parked[None] | None]) -> None:
        while True:
            await sleep(self._broker.clock, max(interval_ms, INTERVAL_MIN_MS))
            try:
                under_way = work()
            except DiskError as error:
                self._broker.fail(error)
                return
            if under_way is not None:
                await under_way

    def _for_each_log(self, work: Callable[[PartitionLog], object]) -> Parked[None]:
        """There may be many: in slices."""
        return self._broker.slices.run(work(partition.log) for partition in self._broker.topics.partitions())

    def _delete_old_segments(self) -> Parked[None]:
        return start(self._leave_and_delete())

    async def _leave_and_delete(self) -> None:
        """Where the logs begin is durable before a file is gone."""
        now_ms, moved = self._broker.clock.now_ms(), False

        def leave(log: PartitionLog) -> None:
            nonlocal moved
            moved |= log.leave_expired(now_ms)

        await self._for_each_log(leave)
        if moved:
            await self._broker.checkpoints.write()
        await self._for_each_log(lambda log: log.delete_left())

    def _expire_producers(self) -> Parked[None]:
        return self._for_each_log(lambda log: log.expire_producers(self._broker.clock.now_ms()))

    def _checkpoint(self) -> Parked[None]:
        return start(self._sync_and_checkpoint())

    async def _sync_and_checkpoint(self) -> None:
        """Sync first what only the write-ahead log has, so that the checkpoint leaves little to be read again."""
        await self._broker.durability.retire()
        await self._broker.checkpoints.write()

    def _flush(self) -> Parked[None]:
        return start(self._flush_due())

    async def _flush_due(self) -> None:
        """Make durable what flush.messages and flush.ms do not let wait any longer."""
        now_ms = self._broker.clock.now_ms()
        due: list[PartitionLog] = []

        def look_at(log: PartitionLog) -> None:
            if log.needs_flush(now_ms):
                due.append(log)

        await self._for_each_log(look_at)
        await self._broker.durability.make_durable(due)
