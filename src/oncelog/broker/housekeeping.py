"""What a broker does without being asked: time out transactions, forget what expired, delete old segments, flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.coordination import Parked
from oncelog.environment import DiskError, Timer
from oncelog.log import PartitionLog

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

PRODUCER_ID_CHECK_INTERVAL_MS = 600_000
FLUSH_CHECK_INTERVAL_MS = 1000


class Housekeeping:
    """Repeated work on the broker's own clock; each kind at its own interval."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        number = broker.settings.number
        self._repeat(
            "transaction timeouts",
            number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            broker.transactions.abort_timed_out,
        )
        self._repeat(
            "transactional ids",
            number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            broker.transactions.expire_ids,
        )
        self._repeat("offsets", number("offsets.retention.check.interval.ms"), broker.offsets.expire)
        self._repeat("retention", number("log.retention.check.interval.ms"), self._delete_old_segments)
        self._repeat("producer ids", PRODUCER_ID_CHECK_INTERVAL_MS, self._expire_producers)
        self._repeat("checkpoint", number("log.flush.offset.checkpoint.interval.ms"), self._checkpoint)
        self._repeat("flush", FLUSH_CHECK_INTERVAL_MS, self._flush)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _repeat(self, name: str, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except DiskError as error:
                self._broker.fail(error)
                return
            self._timers[name] = self._broker.clock.call_later(interval_ms, run)

        self._timers[name] = self._broker.clock.call_later(interval_ms, run)

    def _for_each_log(self, work: Callable[[PartitionLog], object]) -> Parked[None]:
        """There may be many: in slices."""
        return self._broker.slices.run(work(partition.log) for partition in self._broker.topics.partitions())

    def _delete_old_segments(self) -> None:
        self._for_each_log(lambda log: log.delete_expired(self._broker.clock.now_ms()))

    def _expire_producers(self) -> None:
        self._for_each_log(lambda log: log.expire_producers(self._broker.clock.now_ms()))

    def _checkpoint(self) -> None:
        """Sync first what only the write-ahead log has, so that the checkpoint leaves little to be read again."""

        def write(_: None) -> None:
            self._broker.checkpoints.write()

        self._broker.durability.retire().then(write)

    def _flush(self) -> None:
        """Make durable what flush.messages and flush.ms do not let wait any longer."""
        now_ms = self._broker.clock.now_ms()
        due: list[PartitionLog] = []

        def look_at(log: PartitionLog) -> None:
            if log.needs_flush(now_ms):
                due.append(log)

        def looked_at(_: None) -> None:
            self._broker.durability.make_durable(due)

        self._for_each_log(look_at).then(looked_at)
