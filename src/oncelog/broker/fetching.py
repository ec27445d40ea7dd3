"""Reading partitions for one Fetch, at once or when there is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from typing_extensions import Buffer

from oncelog.broker.fetch_sessions import FetchedPartition
from oncelog.broker.storage.leader_epochs import epoch_problem
from oncelog.broker.storage.partition import Partition
from oncelog.coordination import Parked
from oncelog.environment import Clock
from oncelog.log import AbortedTransaction
from oncelog.records import Codec
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock

READ_COMMITTED = 1


class Needs(Protocol):
    """What of the broker is needed here."""

    clock: Clock
    topics: Topics


@dataclass(slots=True)
class PartitionRead:
    """What one partition answers. `diverging` is (epoch, end offset) where the reader's history is not this log's."""

    asked: FetchedPartition
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    aborted: tuple[AbortedTransaction, ...] | None = None
    data: Buffer = b""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    isolation_level: int
    wait_ms: float
    size_bytes_min: int
    size_bytes_max: int
    reads_zstd: bool = True


class _Watch:
    """Waits for any of the partitions to move, and for the end of the time."""

    __slots__ = ("_partitions", "_timer", "_woken", "is_over")

    def __init__(self, clock: Clock, wait_ms: float, partitions: list[Partition]) -> None:
        self.is_over = False
        self._woken: Parked[None] = Parked()
        self._partitions = partitions
        for partition in partitions:
            partition.watch(self._wake)
        self._timer = clock.call_later(wait_ms, self._time_is_up)

    async def moved(self) -> None:
        """Wait for the next move, or for the end of the time. A move while nobody waits counts too."""
        await self._woken
        self._woken = Parked()

    def end(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.unwatch(self._wake)

    def _wake(self) -> None:
        if not self._woken.is_released:
            self._woken.release(None)

    def _time_is_up(self) -> None:
        self.is_over = True
        self._wake()


class Fetching:
    """One Fetch: read, and if that is too little, read again whenever a partition moves, until the time is up."""

    __slots__ = ("_asked", "_broker", "_limits")

    def __init__(self, broker: Needs, asked: Sequence[FetchedPartition], limits: FetchLimits) -> None:
        self._broker = broker
        self._asked = asked
        self._limits = limits

    async def reads(self) -> list[PartitionRead]:
        reads = self._read_all()
        if self._limits.wait_ms <= 0 or self._is_enough(reads):
            return reads
        reads.clear()
        watch = _Watch(self._broker.clock, self._limits.wait_ms, self._watched())
        try:
            while not watch.is_over:
                await watch.moved()
                if self._may_have_enough() and self._is_enough(reads := self._read_all()):
                    return reads
        finally:
            watch.end()
        return self._read_all()

    def _watched(self) -> list[Partition]:
        return [found for asked in self._asked if isinstance(found := self._find(asked), Partition)]

    def _may_have_enough(self) -> bool:
        """A look that reads nothing: whether there is anything new, or a partition has gone."""
        level = self._limits.isolation_level
        for asked in self._asked:
            partition = self._find(asked)
            if isinstance(partition, ErrorCode) or partition.limit_offset(level) > asked.fetch_offset:
                return True
        return False

    def _is_enough(self, reads: list[PartitionRead]) -> bool:
        must_answer = any(read.error is not ErrorCode.none or read.diverging is not None for read in reads)
        read_bytes = sum(memoryview(read.data).nbytes for read in reads)
        return must_answer or not reads or read_bytes >= self._limits.size_bytes_min

    def _read_all(self) -> list[PartitionRead]:
        reads: list[PartitionRead] = []
        read_bytes = 0
        for asked in self._asked:
            read = self._read(asked, self._limits.size_bytes_max - read_bytes, whole_batch=not read_bytes)
            reads.append(read)
            read_bytes += memoryview(read.data).nbytes
        return reads

    def _find(self, asked: FetchedPartition) -> Partition | ErrorCode:
        topics = self._broker.topics
        if isinstance(asked.topic, UUID):
            if asked.name is None:
                identified = topics.with_id(asked.topic)
                if identified is None:
                    return ErrorCode.unknown_topic_id
                asked.name = identified.name
            topic = topics.named(asked.name)
            if topic is not None and topic.topic_id != asked.topic:
                return ErrorCode.inconsistent_topic_id
        else:
            topic = topics.named(asked.topic)
        partition = topic.partition(asked.index) if topic is not None else None
        return ErrorCode.unknown_topic_or_partition if partition is None else partition

    def _read(self, asked: FetchedPartition, size_bytes_left: int, *, whole_batch: bool) -> PartitionRead:
        partition = self._find(asked)
        if isinstance(partition, ErrorCode):
            return PartitionRead(asked, partition)
        problem = epoch_problem(partition, asked.current_leader_epoch)
        if problem is not None:
            return PartitionRead(asked, problem)
        if not self._limits.reads_zstd and self._stores_zstd(partition):
            return PartitionRead(asked, ErrorCode.unsupported_compression_type)
        log = partition.log
        read = PartitionRead(
            asked,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
        )
        read.diverging = _divergence(partition, asked)
        if read.diverging is not None:
            return read
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            read.error = ErrorCode.offset_out_of_range
            return read
        self._read_records(partition, asked, read, size_bytes_left, whole_batch=whole_batch)
        return read

    def _stores_zstd(self, partition: Partition) -> bool:
        topic = self._broker.topics.named(partition.topic)
        return topic is not None and topic.form.codec is Codec.ZSTD

    def _read_records(
        self,
        partition: Partition,
        asked: FetchedPartition,
        read: PartitionRead,
        size_bytes_left: int,
        *,
        whole_batch: bool,
    ) -> None:
        level = self._limits.isolation_level
        limit = partition.limit_offset(level)
        next_offset = asked.fetch_offset
        size_bytes = min(size_bytes_left, asked.size_bytes_max)
        if limit > asked.fetch_offset and (size_bytes > 0 or whole_batch):
            data, end = partition.log.read(asked.fetch_offset, size_bytes, limit)
            # A batch larger than the limits is given only where it is the first of the answer (KIP-74).
            if whole_batch or memoryview(data).nbytes <= size_bytes:
                read.data, next_offset = data, end
        if level == READ_COMMITTED:
            read.aborted = partition.log.aborted_transactions(asked.fetch_offset, next_offset)


def _divergence(partition: Partition, asked: FetchedPartition) -> tuple[int, int] | None:
    """Where the log that the reader saw and this one part (KIP-595, Fetch v12)."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.log.epoch_end_offset(asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None
