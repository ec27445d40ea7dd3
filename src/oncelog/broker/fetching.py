"""Reading partitions for one Fetch, at once or when there is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from typing_extensions import Buffer

from oncelog.broker.fetch_sessions import FetchedPartition, Find
from oncelog.broker.leaders import epoch_problem
from oncelog.broker.slices import NO_MEMORY, Turn
from oncelog.broker.storage.leading import FollowerId
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise
from oncelog.environment import Clock, DiskError, RefusedError
from oncelog.log import AbortedTransaction, PartitionLog
from oncelog.records import Codec
from oncelog.wire import BytesInParts, ErrorCode

READ_COMMITTED = 1
UNRESERVED_BYTES = 64 * 1024
"""A smaller answer has its memory in any case, as has a smaller request."""
READ_AT_ONCE_BYTES = 1024 * 1024
"""Records are read in parts of about this size: the memory of each is free when it is sent, and serves the next answer."""
GATHERING_ROUNDS = 3
"""How often a follower's answer lets whatever else has come be served first: what that appends goes with the same answer.

Under load it halves the fetches. Where nothing else has come, it takes no time.
"""


@dataclass(slots=True)
class PartitionRead:
    """The answer of one partition. `diverging` is (epoch, end offset) where the reader's history is not this log's."""

    asked: FetchedPartition
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    aborted: tuple[AbortedTransaction, ...] | None = None
    data: Buffer | BytesInParts = b""
    preferred_replica: int | None = None
    """The broker that a consumer is to read from in place of this one (KIP-392)."""

    @property
    def size_bytes(self) -> int:
        return len(self.data)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    isolation_level: int
    wait_ms: float
    size_bytes_min: int
    size_bytes_max: int
    reads_zstd: bool = True
    follower: FollowerId | None = None
    """The follower that fetches: it may read the whole log, and its fetch offset says what it has."""
    only_from_leader: bool = True
    rack: str | None = None
    """The rack of a consumer that may be sent to a follower."""


Reserve = Callable[[int, int], Promise[int]]
"""Has memory for an answer, from the most to the least that it may have."""


class FetchedPartitions(Protocol):
    """The partitions of one fetch, in a session or without one."""

    named: Sequence[FetchedPartition]
    """The partitions that the request names."""

    @property
    def is_empty(self) -> bool: ...

    def to_look_at(self) -> Sequence[FetchedPartition]:
        """The partitions that may have something to answer."""
        ...

    def mark_idle(self, asked: FetchedPartition, partition: Partition) -> None:
        """It has nothing to say before it moves."""
        ...

    def watch(self, wake: Callable[[], None], find: Find) -> None:
        """Have `wake` called when one of them moves; to be said again after each time."""
        ...

    def unwatch(self, wake: Callable[[], None]) -> None: ...


class _Watch:
    """Waits for any of the partitions to move, and for the end of the time."""

    __slots__ = ("_asked", "_find", "_timer", "_woken", "is_over")

    def __init__(self, clock: Clock, wait_ms: float, asked: FetchedPartitions, find: Find) -> None:
        self.is_over = False
        self._woken: Promise[None] = Promise()
        self._asked = asked
        self._find = find
        asked.watch(self._wake, find)
        self._timer = clock.call_later(wait_ms, self._time_is_up)

    async def moved(self) -> None:
        """Wait for the next move, or for the end of the time. A move while nobody waits counts too."""
        await self._woken
        self._woken = Promise()
        self._asked.watch(self._wake, self._find)

    def end(self) -> None:
        self._timer.cancel()
        self._asked.unwatch(self._wake)

    def _wake(self) -> None:
        if not self._woken.is_resolved:
            self._woken.resolve(None)

    def _time_is_up(self) -> None:
        self.is_over = True
        self._wake()


class Fetching:
    """One Fetch: wait until there is enough or the time is up, then read."""

    __slots__ = ("_asked", "_clock", "_limits", "_reserve", "_topics", "_turn")

    def __init__(
        self,
        clock: Clock,
        topics: Topics,
        asked: FetchedPartitions,
        limits: FetchLimits,
        turn: Turn,
        reserve: Reserve,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._asked = asked
        self._limits = limits
        self._turn = turn
        self._reserve = reserve

    async def reads(self) -> list[PartitionRead]:
        """Return the answers of the partitions, at least of those with news."""
        if self._limits.follower is not None:
            await self._note_progress(self._limits.follower)
        is_enough = self._limits.wait_ms <= 0 or await self._is_enough() or await self._comes_in_time()
        if is_enough and self._limits.follower is not None:
            await self._gather()
        return await self._read_all(await self._room())

    async def _comes_in_time(self) -> bool:
        """Wait until there is enough; false if the time is up before."""
        watch = _Watch(self._clock, self._limits.wait_ms, self._asked, self._watched)
        try:
            while not watch.is_over:
                if await self._is_enough():
                    return True
                await watch.moved()
                self._turn.begin()
            return False
        finally:
            watch.end()

    async def _gather(self) -> None:
        for _ in range(GATHERING_ROUNDS):
            await self._turn.rest()

    async def _note_progress(self, follower: FollowerId) -> None:
        """Take note of a follower's fetch offsets: the high watermark moves by them, even where there is nothing more to read."""
        for asked in self._asked.named:
            partition = self._look(asked)
            if isinstance(partition, Partition):
                partition.leading.fetched(follower, asked.fetch_offset, asked.log_start_offset)
            if self._turn.is_over:
                await self._turn.rest()

    def _limit_offset(self, partition: Partition) -> int:
        if self._limits.follower is not None:
            return partition.leading.limit_offset(self._limits.isolation_level)
        return partition.limit_offset(self._limits.isolation_level)

    def _watched(self, asked: FetchedPartition) -> Partition | None:
        found = self._find(asked)
        return found if isinstance(found, Partition) else None

    async def _is_enough(self) -> bool:
        """True if the answer would have `size_bytes_min`, or an error or the like, which does not wait. It reads no records."""
        size_bytes_left = self._limits.size_bytes_min
        for asked in self._asked.to_look_at():
            partition = self._look(asked)
            if isinstance(partition, PartitionRead):
                return True
            limit_offset = self._limit_offset(partition)
            if limit_offset > asked.fetch_offset:
                size_bytes = partition.log.size_between(asked.fetch_offset, limit_offset)
                size_bytes_left -= min(size_bytes, asked.size_bytes_max)
                if size_bytes_left <= 0:
                    return True
            elif asked.knows(partition.log):
                self._asked.mark_idle(asked, partition)
            if self._turn.is_over:
                await self._turn.rest()
        return self._asked.is_empty or self._limits.size_bytes_min <= 0

    async def _room(self) -> int:
        """How many bytes of records may be read: as many as there are now, or as there is memory for by and by."""
        most_bytes, least_bytes = 0, 0
        for asked in self._asked.to_look_at():
            there_bytes = self._there_bytes(asked)
            if there_bytes and not most_bytes:
                least_bytes = self._batch_bytes(asked) if there_bytes > UNRESERVED_BYTES else there_bytes
            most_bytes += min(there_bytes, asked.size_bytes_max)
            if most_bytes >= self._limits.size_bytes_max:
                most_bytes = self._limits.size_bytes_max
                break
            if self._turn.is_over:
                await self._turn.rest()
        if max(most_bytes, least_bytes) <= UNRESERVED_BYTES:
            return min(UNRESERVED_BYTES, self._limits.size_bytes_max)
        room_bytes = await self._reserve(most_bytes, least_bytes)
        self._turn.begin()
        return min(room_bytes, self._limits.size_bytes_max)

    def _there_bytes(self, asked: FetchedPartition) -> int:
        """How much its reader could be given now. It reads nothing."""
        partition = self._look(asked)
        if isinstance(partition, PartitionRead):
            return 0
        limit_offset = self._limit_offset(partition)
        if limit_offset <= asked.fetch_offset:
            return 0
        return partition.log.size_between(asked.fetch_offset, limit_offset)

    def _batch_bytes(self, asked: FetchedPartition) -> int:
        """How long the first batch is, which is given whatever limits say (KIP-74)."""
        partition = self._find(asked)
        assert isinstance(partition, Partition), asked
        try:
            return partition.log.batch_bytes(asked.fetch_offset)
        except DiskError:
            # Who reads it will say so.
            return 0

    async def _read_all(self, size_bytes_max: int) -> list[PartitionRead]:
        reads: list[PartitionRead] = []
        read_bytes = 0
        for asked in self._asked.to_look_at():
            read = self._read_or_refuse(asked, size_bytes_max - read_bytes, whole_batch=not read_bytes)
            reads.append(read)
            read_bytes += read.size_bytes
            if self._turn.is_over:
                await self._turn.rest()
        return reads

    def _look(self, asked: FetchedPartition) -> Partition | PartitionRead:
        """The partition to read, or what is answered in place of records."""
        partition = self._find(asked)
        if isinstance(partition, ErrorCode):
            return PartitionRead(asked, partition)
        problem = epoch_problem(partition, asked.current_leader_epoch, only_from_leader=self._limits.only_from_leader)
        if problem is not None:
            return PartitionRead(asked, problem)
        if self._limits.rack is not None:
            preferred = partition.leading.preferred_replica(self._limits.rack, asked.fetch_offset)
            if preferred is not None:
                return _without_records(partition, asked, preferred_replica=preferred)
        if self._limits.follower is not None:
            problem = partition.leading.problem(self._limits.follower)
            if problem is not None:
                return PartitionRead(asked, problem)
        if not self._limits.reads_zstd and self._stores_zstd(partition):
            return PartitionRead(asked, ErrorCode.unsupported_compression_type)
        log = partition.log
        diverging = _divergence(partition, asked)
        if diverging is not None:
            if diverging[1] < 0:
                return _without_records(partition, asked, ErrorCode.offset_out_of_range)
            return _without_records(partition, asked, diverging=diverging)
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            return _without_records(partition, asked, ErrorCode.offset_out_of_range)
        return partition

    def _read_or_refuse(self, asked: FetchedPartition, size_bytes_left: int, *, whole_batch: bool) -> PartitionRead:
        """A partition that turns out to be damaged is offline from now on, and all of a directory whose disk fails."""
        try:
            return self._read(asked, size_bytes_left, whole_batch=whole_batch)
        except MemoryError as error:
            raise RefusedError(NO_MEMORY) from error
        except DiskError as error:
            partition = self._find(asked)
            assert isinstance(partition, Partition), asked
            self._topics.failed(partition, error)
            return PartitionRead(asked, ErrorCode.kafka_storage_error)

    def _find(self, asked: FetchedPartition) -> Partition | ErrorCode:
        topics = self._topics
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
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        return partition

    def _read(self, asked: FetchedPartition, size_bytes_left: int, *, whole_batch: bool) -> PartitionRead:
        partition = self._look(asked)
        if isinstance(partition, PartitionRead):
            return partition
        read = _without_records(partition, asked)
        level = self._limits.isolation_level
        limit = self._limit_offset(partition)
        next_offset = asked.fetch_offset
        size_bytes = min(size_bytes_left, asked.size_bytes_max)
        if limit <= asked.fetch_offset:
            self._asked.mark_idle(asked, partition)
        elif size_bytes > 0 or whole_batch:
            read.data, next_offset = _records(
                partition.log, asked.fetch_offset, size_bytes, limit, whole_batch=whole_batch
            )
        if level == READ_COMMITTED:
            read.aborted = partition.log.aborted_transactions(asked.fetch_offset, next_offset)
        return read

    def _stores_zstd(self, partition: Partition) -> bool:
        topic = self._topics.named(partition.topic)
        return topic is not None and topic.form.codec is Codec.ZSTD


def _records(
    log: PartitionLog, offset: int, size_bytes: int, limit_offset: int, *, whole_batch: bool
) -> tuple[Buffer | BytesInParts, int]:
    """The batches from `offset` on that fit, and the offset behind them."""
    parts: list[Buffer] = []
    left_bytes = size_bytes
    while offset < limit_offset:
        if parts and left_bytes < READ_AT_ONCE_BYTES and log.batch_bytes(offset) > left_bytes:
            break
        asked_bytes = min(left_bytes, READ_AT_ONCE_BYTES)
        data, end_offset = log.read(offset, asked_bytes, limit_offset)
        part_bytes = memoryview(data).nbytes
        # A batch larger than the limits is given only where it is the first of the answer (KIP-74).
        if not part_bytes or (part_bytes > left_bytes and (parts or not whole_batch)):
            break
        parts.append(data)
        offset = end_offset
        left_bytes -= part_bytes
        if left_bytes <= 0 or asked_bytes < READ_AT_ONCE_BYTES:
            break
    if len(parts) > 1:
        return BytesInParts(size_bytes - left_bytes, parts), offset
    return (parts[0] if parts else b""), offset


def _without_records(
    partition: Partition,
    asked: FetchedPartition,
    error: ErrorCode = ErrorCode.none,
    diverging: tuple[int, int] | None = None,
    preferred_replica: int | None = None,
) -> PartitionRead:
    log = partition.log
    return PartitionRead(
        asked,
        error,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        diverging=diverging,
        preferred_replica=preferred_replica,
    )


def _divergence(partition: Partition, asked: FetchedPartition) -> tuple[int, int] | None:
    """The epoch and offset at which the reader's log and this one part (KIP-595, Fetch v12); (-1, -1) if it never had that epoch.

    An offset from before the log begins is out of range, whatever the epochs say (Kafka's Partition.readRecords).
    """
    log = partition.log
    if asked.last_fetched_epoch < 0 or asked.fetch_offset < log.log_start_offset:
        return None
    if asked.last_fetched_epoch == log.newest_epoch and asked.fetch_offset <= log.log_end_offset:
        return None
    epoch, end_offset = log.epoch_end_offset(asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None
