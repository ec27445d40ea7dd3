"""Reading partitions as raw record batches, one request ahead of the caller.

Each leader has one request on its way at a time, for every partition that is to be read there; the next one leaves as
soon as an answer is in, before the caller has seen it. Two at once would not help: a broker answers a connection in
order, so a request behind one that waits for new records would wait with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import Buffer

from oncelog.client import requests
from oncelog.client.cluster import Cluster, locate
from oncelog.client.conversation import Conversation, Lane, Now, Patience, Send, Ticket, Wait
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    OffsetOutOfRange,
    RetriesExhausted,
)
from oncelog.client.leaders import by_leader, by_topic
from oncelog.client.requests import Request, milliseconds
from oncelog.client.values import Address, IsolationLevel, TopicPartition
from oncelog.records import batches
from oncelog.wire import ErrorCode

CONSUMER_REPLICA_ID = -1
NO_SESSION_EPOCH = -1
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How much to ask for at once, and how long a broker may wait for it.

    A broker answers when `min_bytes` are there or `max_wait_ms` are over, with at most about `partition_bytes` of each
    partition and `max_bytes` in all; one batch may be larger.
    """

    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 50 * MIB
    partition_bytes: int = 4 * MIB


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """What one answer has of one partition: chunks that hold whole record batches, and where the log stands.

    The first batch may begin before the offset asked for, and control batches and the batches of aborted transactions
    are among them. `aborted` names, sorted, the (producer id, first offset) of each aborted transaction.
    """

    partition: TopicPartition
    chunks: tuple[Buffer, ...]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Reading:
    """How far one partition is read."""

    position: int
    end_offset: int | None


class Fetches:
    """The partitions being read, the requests on their way, and the answers nobody has taken yet."""

    def __init__(self, cluster: Cluster, settings: FetchSettings, lane: Lane = Lane.FETCHES) -> None:
        self._cluster = cluster
        self._settings = settings
        self._lane = lane
        self._paused: set[TopicPartition] = set()
        self._readings: dict[TopicPartition, _Reading] = {}
        self._on_their_way: dict[Address, tuple[Ticket, dict[TopicPartition, int]]] = {}
        self._ready: deque[FetchedBatches] = deque()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._readings)

    def read(self, partition: TopicPartition, offset: int, end_offset: int | None = None) -> None:
        """Read a partition from an offset; with `end_offset`, ask for nothing at or beyond it."""
        self._readings[partition] = _Reading(offset, end_offset)
        self._ready = deque(fetched for fetched in self._ready if fetched.partition != partition)

    def stop(self, partition: TopicPartition) -> None:
        self._readings.pop(partition, None)
        self._ready = deque(fetched for fetched in self._ready if fetched.partition != partition)

    def pause(self, partition: TopicPartition) -> None:
        """Ask for no more of a partition until `resume`; what is on its way is kept."""
        self._paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self._paused.discard(partition)

    def is_reading_at(self, partition: TopicPartition, offset: int, end_offset: int | None) -> bool:
        """Whether the next answer, on its way or here already, goes on at `offset`."""
        reading = self._readings.get(partition)
        if reading is None:
            return False
        waiting = next((fetched for fetched in self._ready if fetched.partition == partition), None)
        return waiting is None and reading.position == offset and reading.end_offset == end_offset

    def next(self, timeout_ms: float, *, until_woken: bool = False) -> Conversation[list[FetchedBatches]]:
        """What the next answer has, partitions without new records included; nothing if none comes in time.

        With `until_woken`, nothing also when a wake-up came first.

        Raises OffsetOutOfRange or BrokerRefused for a partition that cannot be read, RetriesExhausted.
        """
        started_ms: float = yield Now()
        until_ms = started_ms + timeout_ms
        patience: Patience | None = None
        while not self._ready:
            if not self._wanted() and not self._on_their_way:
                return []
            yield from self._ask(self._wanted())
            now_ms: float = yield Now()
            if self._on_their_way:
                waiting = tuple(ticket for ticket, _ in self._on_their_way.values())
                done = yield Wait(waiting, max(0.0, until_ms - now_ms), until_woken)
                if until_woken and not done:
                    break
            problem = self._take_answers()
            if problem is not None:
                if patience is None:
                    patience = yield from Patience.lasting(self._cluster.settings.call_timeout_ms)
                if not (yield from patience.pause()):
                    raise RetriesExhausted(f"fetching: {problem}") from problem
            now_ms = yield Now()
            if now_ms >= until_ms:
                break
        answers = list(self._ready)
        self._ready.clear()
        yield from self._ask(self._wanted())
        return answers

    def _wanted(self) -> list[TopicPartition]:
        """What to ask for: read, not at its end, and not asked for already."""
        asked = {partition for _, positions in self._on_their_way.values() for partition in positions}
        return [
            partition
            for partition, reading in self._readings.items()
            if partition not in asked
            and partition not in self._paused
            and (reading.end_offset is None or reading.position < reading.end_offset)
        ]

    def _ask(self, wanted: Iterable[TopicPartition]) -> Conversation[None]:
        wanted = list(wanted)
        if any(self._cluster.leader(partition) is None for partition in wanted):
            yield from locate(self._cluster, wanted)
        for leader, group in by_leader(self._cluster, wanted).items():
            if leader in self._on_their_way:
                continue
            timeout_ms = self._cluster.settings.request_timeout_ms + self._settings.max_wait_ms
            ticket: Ticket = yield Send(leader, self._request(group), timeout_ms, self._lane)
            self._on_their_way[leader] = ticket, {item: self._readings[item].position for item in group}

    def _request(self, group: Iterable[TopicPartition]) -> Request:
        settings = self._settings
        fields = {
            "replica_id": CONSUMER_REPLICA_ID,
            "max_wait": milliseconds(settings.max_wait_ms),
            "min_bytes": settings.min_bytes,
            "max_bytes": settings.max_bytes,
            "isolation_level": int(settings.isolation_level),
            "session_id": 0,
            "session_epoch": NO_SESSION_EPOCH,
            "topics": [self._topic(topic, items) for topic, items in by_topic(group).items()],
        }
        return Request(requests.FETCH, fields)

    def _topic(self, topic: str, items: Iterable[TopicPartition]) -> Mapping[str, Any]:
        partitions = [
            {
                "partition": item.partition,
                "fetch_offset": self._readings[item].position,
                "partition_max_bytes": self._settings.partition_bytes,
            }
            for item in items
        ]
        return {"topic": topic, "partitions": partitions}

    def _take_answers(self) -> ClientError | None:
        """Take in every answer that is here; return a problem that will pass, if there was one."""
        problem: ClientError | None = None
        for leader, (ticket, positions) in list(self._on_their_way.items()):
            if not ticket.is_done:
                continue
            del self._on_their_way[leader]
            try:
                message = ticket.result()
            except ConnectionLost as lost:
                problem = lost
                for partition in positions:
                    self._cluster.forget_leader(partition)
                continue
            for topic in message.responses:
                for item in topic.partitions:
                    partition = TopicPartition(str(topic.topic), int(item.partition_index))
                    problem = self._take(partition, positions[partition], item) or problem
        return problem

    def _take(self, partition: TopicPartition, asked_offset: int, item: Any) -> ClientError | None:
        reading = self._readings.get(partition)
        if reading is None or reading.position != asked_offset:
            return None  # the caller has gone elsewhere since
        if item.error_code is ErrorCode.none:
            fetched = fetched_batches(partition, asked_offset, item)
            reading.position = fetched.next_offset
            self._ready.append(fetched)
            return None
        if item.error_code is ErrorCode.offset_out_of_range:
            self.stop(partition)
            raise OffsetOutOfRange(item.error_code, f"offset {asked_offset} of {partition}")
        refused = BrokerRefused(item.error_code, f"fetching {partition}")
        if item.error_code not in RETRIABLE:
            self.stop(partition)
            raise refused
        if item.error_code in STALE_METADATA:
            self._cluster.forget_leader(partition)
        return refused


def fetched_batches(partition: TopicPartition, asked_offset: int, item: Any) -> FetchedBatches:
    """Read one partition of a Fetch answer, without what is cut off at its end."""
    data: bytes = item.records or b""
    end = 0
    next_offset = asked_offset
    for position, header in batches(data):
        end = position + header.size_bytes
        next_offset = max(next_offset, header.next_offset)
    if data and not end:
        raise ClientError(f"the first batch of {partition} from offset {asked_offset} came incomplete")
    whole = data if end == len(data) else data[:end]
    return FetchedBatches(
        partition=partition,
        chunks=(whole,) if whole else (),
        next_offset=next_offset,
        high_watermark=int(item.high_watermark),
        last_stable_offset=int(item.last_stable_offset),
        log_start_offset=int(getattr(item, "log_start_offset", -1)),
        aborted=tuple(sorted(_aborted(item), key=lambda transaction: transaction[1])),
    )


def _aborted(item: Any) -> Iterable[tuple[int, int]]:
    for transaction in item.aborted_transactions or ():
        yield int(transaction.producer_id), int(transaction.first_offset)
