"""Reading partitions as raw record batches, one request ahead of the caller.

Each leader has one request in flight at a time, for every partition that is to be read there; the next one leaves as
soon as an answer is in, before the caller has seen it. Two at once would not help: a broker answers a connection in
order, so a request behind one that waits for new records would wait with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from oncelog.client import requests
from oncelog.client.consumer.readings import FetchedBatches, Reading, SentFetch
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    ClientError,
    ConnectionLost,
    CorruptRecords,
    LogTruncated,
    OffsetOutOfRange,
    RetriesExhausted,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import ConnectionUse, Now, PendingRequest, Send, Wait
from oncelog.client.net.leaders import LeaderSearch, by_leader
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest, milliseconds
from oncelog.client.values import Address, IsolationLevel, TopicPartition
from oncelog.records import batches
from oncelog.wire import ErrorCode, WireError

BY_NAME_VERSION_MAX = 12
"""Fetch from version 13 on names topics by their ids (KIP-516)."""
CONSUMER_REPLICA_ID = -1
NO_SESSION_EPOCH = -1
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The sizes of an answer, and the time that a broker may wait for it.

    A broker answers when `min_bytes` are there or `max_wait_ms` are over, with at most about `partition_bytes` of each
    partition and `max_bytes` in all; one batch may be larger.
    """

    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 50 * MIB
    partition_bytes: int = 4 * MIB


class Fetches:
    """The partitions being read, the requests in flight, and the answers that were not taken yet.

    A partition that cannot be read, or whose leader is not found, is tried again while the others are read.
    """

    def __init__(self, cluster: Cluster, settings: FetchSettings, use: ConnectionUse = ConnectionUse.FETCHES) -> None:
        self._cluster = cluster
        self._settings = settings
        self._lane = use
        self._search = LeaderSearch(cluster, create=False)
        self._errors: deque[tuple[TopicPartition | None, ClientError]] = deque()
        self._paused: set[TopicPartition] = set()
        self._readings: dict[TopicPartition, Reading] = {}
        self._set_aside: dict[TopicPartition, Reading] = {}
        """The partitions that were stopped because their positions are not there."""
        self._unanswered: dict[Address, SentFetch] = {}
        self._ready: deque[FetchedBatches] = deque()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._readings)

    def read(self, partition: TopicPartition, offset: int, end_offset: int | None = None) -> None:
        """Read a partition from an offset; with `end_offset`, ask for nothing at or beyond it."""
        self.stop(partition)
        self._readings[partition] = Reading(offset, end_offset)

    def stop(self, partition: TopicPartition) -> None:
        self._readings.pop(partition, None)
        self._set_aside.pop(partition, None)
        self._ready = deque(fetched for fetched in self._ready if fetched.partition != partition)
        self._errors = deque((about, error) for about, error in self._errors if about != partition)

    def take_up_again(self, partition: TopicPartition) -> None:
        """Read a partition as before its position was said not to be there, which is said again if it still is not."""
        reading = self._set_aside.pop(partition, None)
        if reading is not None:
            self._readings[partition] = reading

    def pause(self, partition: TopicPartition) -> None:
        """Ask for no more of a partition until `resume`; an answer to a request in flight is kept."""
        self._paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self._paused.discard(partition)

    def is_reading_at(self, partition: TopicPartition, offset: int, end_offset: int | None) -> bool:
        """True if the next answer, in flight or received, begins at `offset`."""
        reading = self._readings.get(partition)
        if reading is None:
            return False
        waiting = next((fetched for fetched in self._ready if fetched.partition == partition), None)
        return waiting is None and reading.position == offset and reading.end_offset == end_offset

    async def next(
        self, timeout_ms: float, *, until_woken: bool = False, beside: Iterable[PendingRequest] = ()
    ) -> deque[FetchedBatches]:
        """The next answer, partitions without new records included; empty if none comes in time.

        With `until_woken`, nothing also when a wake-up came first, or one of the awaited `beside` is done. Raises
        OffsetOutOfRange or BrokerRefused for one partition that cannot be read, and goes on with the others when it is called
        again. Raises RetriesExhausted for one that no broker has answered about for as long as a call may take, where there
        is nothing to return.
        """
        now_ms = await Now()
        until_ms = now_ms + timeout_ms
        while not self._ready and not self._errors:
            if not self._has_unread and not self._unanswered:
                return deque()
            await self._ask(now_ms)
            if self._errors:
                break
            done = await self._wait(now_ms, until_ms, until_woken=until_woken, beside=beside)
            now_ms = await Now()
            if now_ms >= until_ms or (until_woken and (not done or any(pending.is_done for pending in beside))):
                break
        if self._errors:
            raise self._errors.popleft()[1]
        await self._ask(now_ms)
        if not self._ready:
            self._raise_exhausted(now_ms)
        answers, self._ready = self._ready, deque()
        return answers

    async def next_of(self, partition: TopicPartition, time_ms: float) -> FetchedBatches:
        """The next answer of a partition that is being read, without chunks where no new record came.

        What comes of others meanwhile is kept until they are asked for here. Until then no more of them is asked for; nor of
        any other, while as much is kept as one answer may have.

        Raises what `next` raises of this partition; RetriesExhausted if no broker answers about it in `time_ms`.
        """
        retries = await self._cluster.retries(time_ms)
        while left_ms := await retries.left_ms():
            now_ms = await Now()
            fetched = next((one for one in self._ready if one.partition == partition), None)
            if fetched is not None:
                await self._ask_ahead(partition, now_ms)
                self._ready.remove(fetched)
                return fetched
            self._raise_error_of(partition)
            if partition not in self._readings:
                raise ValueError(f"{partition} is not being read")
            left_out = self._kept_beside(partition)
            await self._ask(now_ms, left_out)
            self._raise_error_of(partition)
            await self._wait(now_ms, now_ms + left_ms, left_out=left_out)
            self._ready = deque(one for one in self._ready if one.chunks or one.partition == partition)
        reading = self._readings.get(partition)
        cause = None if reading is None else reading.cause
        raise RetriesExhausted(f"fetching {partition}: {cause or 'no answer in time'}") from cause

    async def _ask_ahead(self, partition: TopicPartition, now_ms: float) -> None:
        """Ask for what follows an answer that is about to be taken. Where that is its last, the others may have theirs."""
        reading = self._readings.get(partition)
        if len(self._ready) == 1 or (reading is not None and not reading.is_at_its_end):
            await self._ask(now_ms, self._kept_beside(partition))

    def _kept_beside(self, partition: TopicPartition) -> frozenset[TopicPartition]:
        """The partitions of which nothing more is to be asked for until they are taken."""
        kept = [one for one in self._ready if one.partition != partition]
        if sum(memoryview(chunk).nbytes for one in kept for chunk in one.chunks) >= self._settings.max_bytes:
            return frozenset(self._readings) - {partition}
        failed = {about for about, _ in self._errors if about is not None}
        return frozenset(failed.union(one.partition for one in kept)) - {partition}

    def _raise_error_of(self, partition: TopicPartition) -> None:
        """Raise an error of this partition; those of others are kept until their turn."""
        for place, (about, error) in enumerate(self._errors):
            if about is None or about == partition:
                del self._errors[place]
                raise error

    async def _wait(
        self,
        now_ms: float,
        until_ms: float,
        *,
        until_woken: bool = False,
        beside: Iterable[PendingRequest] = (),
        left_out: Collection[TopicPartition] = (),
    ) -> list[PendingRequest]:
        """Wait for an answer, or until something is to be asked for, and take in what is there."""
        awaited = (*(asked.pending for asked in self._unanswered.values()), *self._search.awaited, *beside)
        wait_ms = max(0.0, min(until_ms, self._next_try_ms(left_out)) - now_ms)
        done = await Wait(awaited, wait_ms, until_woken)
        await self._take_leaders()
        await self._take_answers()
        return done

    @property
    def _has_unread(self) -> bool:
        return any(tp not in self._paused and not reading.is_at_its_end for tp, reading in self._readings.items())

    def _wanted(self, left_out: Collection[TopicPartition]) -> list[TopicPartition]:
        """The partitions to fetch, now or later: read, not at their end, and not in flight."""
        asked = {partition for one in self._unanswered.values() for partition in one.positions}
        return [
            partition
            for partition, reading in self._readings.items()
            if not (partition in asked or partition in self._paused or partition in left_out or reading.is_at_its_end)
        ]

    async def _ask(self, now_ms: float, left_out: Collection[TopicPartition] = ()) -> None:
        wanted = [
            partition for partition in self._wanted(left_out) if self._readings[partition].backoff.retry_at_ms <= now_ms
        ]
        ready = {fetched.partition for fetched in self._ready}
        for partition in [item for item in wanted if self._is_another_topic(item)]:
            wanted.remove(partition)
            if partition not in ready:
                self._take_another_topic(partition, self._readings[partition])
        await self._search.look((tp for tp in wanted if self._cluster.leader(tp) is None), now_ms)
        for leader, group in by_leader(self._cluster, wanted).items():
            if leader in self._unanswered:
                continue
            timeout_ms = self._cluster.settings.request_timeout_ms + self._settings.max_wait_ms
            topic_ids = {item: self._cluster.topic_id(item) for item in group}
            positions = {item: self._readings[item].position for item in group}
            pending = await Send(leader, self._request(topic_ids), timeout_ms, self._lane)
            self._unanswered[leader] = SentFetch(pending, positions, topic_ids)

    def _next_try_ms(self, left_out: Collection[TopicPartition]) -> float:
        """The time of the next request for partitions that no request in flight has."""
        next_ms = float("inf")
        for partition in self._wanted(left_out):
            leader = self._cluster.leader(partition)
            retry_at_ms = self._readings[partition].backoff.retry_at_ms
            if leader is None:
                next_ms = min(next_ms, max(retry_at_ms, self._search.retry_at_ms(partition)))
            elif leader not in self._unanswered:
                next_ms = min(next_ms, retry_at_ms)
        return next_ms

    def _request(self, topic_ids: Mapping[TopicPartition, UUID | None]) -> ApiRequest:
        """Fetch by ids where all are known: a topic that was made again under the same name is not read."""
        settings = self._settings
        fields = {
            "replica_id": CONSUMER_REPLICA_ID,
            "max_wait": milliseconds(settings.max_wait_ms),
            "min_bytes": settings.min_bytes,
            "max_bytes": settings.max_bytes,
            "isolation_level": int(settings.isolation_level),
            "session_id": 0,
            "session_epoch": NO_SESSION_EPOCH,
            "topics": [
                {"topic": name, "topic_id": topic_id, "partitions": [*map(self._asked_partition, items)]}
                for (name, topic_id), items in _by_topic_and_id(topic_ids).items()
            ],
        }
        if None in topic_ids.values():
            return ApiRequest(requests.FETCH, fields, version_max=BY_NAME_VERSION_MAX)
        return ApiRequest(requests.FETCH, fields)

    def _asked_partition(self, item: TopicPartition) -> Mapping[str, Any]:
        return {
            "partition": item.partition,
            "current_leader_epoch": self._cluster.leader_epoch(item),
            "fetch_offset": self._readings[item].position,
            "last_fetched_epoch": self._readings[item].leader_epoch,
            "partition_max_bytes": self._settings.partition_bytes,
        }

    async def _take_leaders(self) -> None:
        policy = self._cluster.settings.retry
        for partition, problem in (await self._search.take()).items():
            if partition in self._readings:
                self._errors.append((partition, problem))
                await self._readings[partition].fail(problem, policy)
        for partition, cause in self._search.causes.items():
            if partition in self._readings:
                await self._readings[partition].fail(cause, policy)
        self._search.causes.clear()

    async def _take_answers(self) -> None:
        """Take in every answer that is here."""
        for leader, asked in list(self._unanswered.items()):
            if not asked.pending.is_done:
                continue
            del self._unanswered[leader]
            try:
                message = asked.pending.result()
            except ClientError as error:
                await self._take_failure(asked.positions, error)
                continue
            silent = dict(asked.positions)
            for topic in message.responses or ():
                for item in topic.partitions or ():
                    partition = asked.partition(topic, int(item.partition_index))
                    silent.pop(partition, None)
                    reading = self._readings.get(partition)
                    # The caller may have gone elsewhere since.
                    if reading is not None and reading.position == asked.positions.get(partition):
                        await self._take(asked, partition, reading, item)
            if silent:
                await self._take_failure(silent, ConnectionLost(f"{leader} answered without them", sent=True))

    async def _take_failure(self, positions: Iterable[TopicPartition], error: ClientError) -> None:
        if not isinstance(error, ConnectionLost):
            self._errors.append((None, error))
        for partition in positions:
            self._cluster.forget_leader(partition)
            if partition in self._readings:
                await self._readings[partition].fail(error, self._cluster.settings.retry)

    async def _take(self, asked: SentFetch, partition: TopicPartition, reading: Reading, item: Any) -> None:
        error: ErrorCode = item.error_code
        if error is ErrorCode.none:
            try:
                fetched = fetched_batches(partition, reading.position, item)
            except (CorruptRecords, WireError) as problem:
                broken = CorruptRecords(f"fetching {partition} from offset {reading.position}: {problem}")
                await self._keep_failing(partition, reading, broken)
                return
            except LogTruncated as truncated:
                if self._is_another_topic(partition):
                    self._take_another_topic(partition, reading)
                else:
                    await self._keep_failing(partition, reading, truncated)
                return
            reading.topic_id = asked.topic_ids[partition]
            # No step between the two, where a signal's handler could raise: it would be passed over, or be there twice.
            reading.position = fetched.next_offset
            self._ready.append(fetched)
            reading.succeed(fetched.leader_epoch)
        elif error is ErrorCode.offset_out_of_range:
            await self._take_out_of_range(asked.pending.address, partition, reading)
        else:
            refusal = refused(asked.pending.request, error, f"fetching {partition}", topic=partition.topic)
            if error not in RETRIABLE:
                self._errors.append((partition, refusal))
            elif error in STALE_METADATA:
                self._cluster.forget_leader(partition)
            await reading.fail(refusal, self._cluster.settings.retry)

    async def _take_out_of_range(self, leader: Address, partition: TopicPartition, reading: Reading) -> None:
        """Believe it when it is said twice. A leader that is none any more has not what the next one has, and says it first.

        Between the two, another node is asked for the leader: a leader that is cut off does not know of the next one.
        """
        out_of_range = OffsetOutOfRange(ErrorCode.offset_out_of_range, f"offset {reading.position} of {partition}")
        refused_by = leader, self._cluster.leader_epoch(partition)
        if reading.refused_by == refused_by:
            self._put_aside(partition, reading)
            self._errors.append((partition, out_of_range))
            return
        reading.refused_by = refused_by
        self._cluster.forget_leader(partition)
        self._cluster.ask_last(leader)
        await reading.fail(out_of_range, self._cluster.settings.retry)

    def _is_another_topic(self, partition: TopicPartition) -> bool:
        """True if the topic was deleted and made again since the last read, where both ids are known."""
        read, present = self._readings[partition].topic_id, self._cluster.topic_id(partition)
        return read is not None and present is not None and read != present

    def _take_another_topic(self, partition: TopicPartition, reading: Reading) -> None:
        """Its log was not cut back, it is another one: of this one nothing was read."""
        self._put_aside(partition, reading)
        what = f"offset {reading.position} of {partition}, whose topic was deleted and made again"
        self._errors.append((partition, OffsetOutOfRange(ErrorCode.offset_out_of_range, what)))

    def _put_aside(self, partition: TopicPartition, reading: Reading) -> None:
        self.stop(partition)
        self._set_aside[partition] = reading

    async def _keep_failing(self, partition: TopicPartition, reading: Reading, error: ClientError) -> None:
        """Say so now, and each time it is so again, until the caller goes elsewhere."""
        self._errors.append((partition, error))
        await reading.fail(error, self._cluster.settings.retry)

    def _raise_exhausted(self, now_ms: float) -> None:
        """Say of one partition that nobody answers about it, again each time a call's length is over."""
        for partition, reading in self._readings.items():
            if now_ms - reading.failing_since_ms >= self._cluster.settings.call_timeout_ms:
                reading.failing_since_ms = now_ms
                raise RetriesExhausted(f"fetching {partition}: {reading.cause}") from reading.cause


def _by_topic_and_id(
    topic_ids: Mapping[TopicPartition, UUID | None],
) -> dict[tuple[str, UUID | None], list[TopicPartition]]:
    """A topic that was made again with fewer partitions may be known by two ids for a while."""
    grouped: dict[tuple[str, UUID | None], list[TopicPartition]] = {}
    for item in sorted(topic_ids):
        grouped.setdefault((item.topic, topic_ids[item]), []).append(item)
    return grouped


def fetched_batches(partition: TopicPartition, asked_offset: int, item: Any) -> FetchedBatches:
    """Read one partition of a Fetch answer, without what is cut off at its end.

    Raises LogTruncated if the log has not, or no longer, what was read of it before `asked_offset`.
    """
    parted = getattr(item, "diverging_epoch", None)
    if parted is not None and parted.end_offset >= 0:
        raise LogTruncated(partition, asked_offset, int(parted.end_offset))
    data: bytes = item.records or b""
    end = 0
    next_offset = asked_offset
    leader_epoch = -1
    for position, header in batches(data):
        end = position + header.size_bytes
        next_offset = max(next_offset, header.next_offset)
        leader_epoch = header.leader_epoch
    if data and not end:
        raise CorruptRecords(f"the first batch of {partition} from offset {asked_offset} came incomplete")
    whole = data if end == len(data) else data[:end]
    return FetchedBatches(
        partition=partition,
        chunks=(whole,) if whole else (),
        next_offset=next_offset,
        high_watermark=int(item.high_watermark),
        last_stable_offset=int(item.last_stable_offset),
        log_start_offset=int(getattr(item, "log_start_offset", -1)),
        aborted=tuple(sorted(_aborted(item), key=lambda transaction: transaction[1])),
        leader_epoch=leader_epoch,
    )


def _aborted(item: Any) -> Iterable[tuple[int, int]]:
    for transaction in item.aborted_transactions or ():
        yield int(transaction.producer_id), int(transaction.first_offset)
