"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only what is new is answered.

session id   epoch   meaning
0            0       begin a session
any          -1      fetch without a session; a session that is named is ended
id           n       go on: the request holds only what differs from the last one

A fetch costs what has moved, not what its session has: a partition of which the reader knows all is watched, and looked at
again when it has moved. Twice a second all of them are looked at: what they say beside their records does not always move them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from oncelog.broker.storage.partition import Partition
from oncelog.environment import Random
from oncelog.log import PartitionLog
from oncelog.wire import ErrorCode

FINAL_EPOCH = -1
FIRST_EPOCH = 0
NO_SESSION = 0
INT_MAX = 2**31 - 1
ALL_EVERY_MS = 500

TopicKey = str | UUID


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a fetch, and what its reader was last told. -1 and None: nothing yet.

    `name` is what the topic's id stood for when it was first found. A session keeps it, as Kafka's does.
    """

    topic: TopicKey
    index: int
    fetch_offset: int
    size_bytes_max: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1
    """Where a follower's log begins."""
    name: str | None = None
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def knows(self, log: PartitionLog) -> bool:
        """Whether the reader was told what an answer says beside records."""
        told = self.told_high_watermark, self.told_log_start_offset
        return told == (log.high_watermark, log.log_start_offset)


Key = tuple[TopicKey, int]


def asked_partition(topic: TopicKey, asked: Any) -> FetchedPartition:
    """A partition that a request names."""
    return FetchedPartition(
        topic=topic,
        index=asked.partition,
        fetch_offset=asked.fetch_offset,
        size_bytes_max=asked.partition_max_bytes,
        current_leader_epoch=getattr(asked, "current_leader_epoch", -1),
        last_fetched_epoch=getattr(asked, "last_fetched_epoch", -1),
        log_start_offset=getattr(asked, "log_start_offset", -1),
    )


Find = Callable[[FetchedPartition], Partition | None]


class FetchWithoutSession:
    """The partitions of one fetch, which are all looked at each time."""

    __slots__ = ("_partitions", "_watched", "named")

    def __init__(self, partitions: Sequence[FetchedPartition]) -> None:
        self.named = self._partitions = partitions
        self._watched: list[Partition] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._partitions

    def to_look_at(self) -> Sequence[FetchedPartition]:
        return self._partitions

    def settle(self, asked: FetchedPartition, partition: Partition) -> None:
        """Nothing is remembered of it."""

    def watch(self, wake: Callable[[], None], find: Find) -> None:
        if self._watched is None:
            self._watched = [found for asked in self._partitions if (found := find(asked)) is not None]
            for partition in self._watched:
                partition.watch(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        for partition in self._watched or ():
            partition.unwatch(wake)
        self._watched = None


class FetchSession:
    """The partitions of one session, those that were answered longest ago first."""

    __slots__ = ("_all_at_ms", "_moved", "_wakes", "_watched", "by_id", "epoch", "named", "partitions", "session_id")

    def __init__(
        self, session_id: int, partitions: OrderedDict[Key, FetchedPartition], now_ms: float, *, by_id: bool
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.by_id = by_id
        self.epoch = FIRST_EPOCH + 1
        self.named: Sequence[FetchedPartition] = tuple(partitions.values())
        """What the request says something of: all from time to time, to see also those of which there is nothing new."""
        self._all_at_ms = now_ms
        self._moved: dict[Key, None] = dict.fromkeys(partitions)
        self._watched: dict[Key, tuple[Partition, Callable[[], None]]] = {}
        self._wakes: dict[Callable[[], None], None] = {}

    def update(self, asked: OrderedDict[Key, FetchedPartition], forgotten: list[Key], now_ms: float) -> None:
        for key, partition in asked.items():
            known = self.partitions.get(key)
            if known is not None:
                partition.name = known.name
                partition.told_high_watermark = known.told_high_watermark
                partition.told_log_start_offset = known.told_log_start_offset
            self.partitions[key] = partition
            self._moved[key] = None
        for key in forgotten:
            self.partitions.pop(key, None)
            self._moved.pop(key, None)
            self._leave(key)
        self.named = tuple(asked.values())
        if now_ms - self._all_at_ms >= ALL_EVERY_MS:
            self._all_at_ms = now_ms
            self._moved = dict.fromkeys(self.partitions)
            self.named = tuple(self.partitions.values())

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == INT_MAX else self.epoch + 1

    def end(self) -> None:
        for key in tuple(self._watched):
            self._leave(key)

    @property
    def is_empty(self) -> bool:
        return not self.partitions

    def to_look_at(self) -> Sequence[FetchedPartition]:
        """Those that may have something to say."""
        return [self.partitions[key] for key in self._moved]

    def settle(self, asked: FetchedPartition, partition: Partition) -> None:
        """Its reader knows all of it: it has nothing to say before it moves."""
        key = asked.topic, asked.index
        if self.partitions.get(key) is asked:
            self._moved.pop(key, None)
            self._watch(key, partition)

    def answered(self, asked: FetchedPartition) -> None:
        """It was given records: next time the others come first."""
        key = asked.topic, asked.index
        if key in self.partitions:
            self.partitions.move_to_end(key)
            self._moved.pop(key, None)
            self._moved[key] = None

    def watch(self, wake: Callable[[], None], find: Find) -> None:
        """Have `wake` called when one moves. Call it again after each time: what has moved is watched no more."""
        self._wakes[wake] = None
        for key in self._moved:
            if key not in self._watched:
                partition = find(self.partitions[key])
                if partition is not None:
                    self._watch(key, partition)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._wakes.pop(wake, None)

    def _watch(self, key: Key, partition: Partition) -> None:
        watched = self._watched.get(key)
        if watched is None or watched[0] is not partition:
            self._leave(key)
            moved = partial(self._has_moved, key)
            self._watched[key] = partition, moved
            partition.watch(moved)

    def _leave(self, key: Key) -> None:
        watched = self._watched.pop(key, None)
        if watched is not None:
            partition, moved = watched
            partition.unwatch(moved)

    def _has_moved(self, key: Key) -> None:
        self._leave(key)
        if key in self.partitions:
            self._moved[key] = None
        for wake in tuple(self._wakes):
            wake()


class FetchSessions:
    """The sessions of all clients. When there is no room the one that was used longest ago makes way."""

    def __init__(self, random: Random, slots: int) -> None:
        self._random = random
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, partitions: OrderedDict[Key, FetchedPartition], now_ms: float, *, by_id: bool
    ) -> FetchSession | None:
        """A new session, or None if this broker keeps none."""
        if not self._slots or not partitions:
            return None
        while len(self._sessions) >= self._slots:
            _, least_used = self._sessions.popitem(last=False)
            least_used.end()
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int(self._random.fraction() * INT_MAX)
        session = FetchSession(session_id, partitions, now_ms, by_id=by_id)
        self._sessions[session_id] = session
        return session

    def end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def resume(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession | ErrorCode:
        """The session, its epoch checked and advanced; or why the client has to begin a new one."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.by_id != by_id:
            return ErrorCode.fetch_session_topic_id_error
        if session.epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.advance()
        self._sessions.move_to_end(session_id)
        return session
