"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only what is new is answered.

session id   epoch   meaning
0            0       begin a session
any          -1      fetch without a session; a session that is named is ended
id           n       go on: the request holds only what differs from the last one

A fetch costs what has moved, not what its session has: a partition of which the reader knows all is watched, and looked at
again when it has moved. Twice a second all of them are looked at: what they say beside their records does not always move them.
"""

from __future__ import annotations

import sys
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
STALE_MS = 120_000
"""A session that was used since then is evicted last, and so is one that was begun since then (KIP-227)."""
PARTITION_BYTES = 1024
"""About so much memory a session takes for each partition."""

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
    """The log start offset of a follower."""
    name: str | None = None
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def knows(self, log: PartitionLog) -> bool:
        """True if the reader was told the log's high watermark and log start offset."""
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

    def mark_idle(self, asked: FetchedPartition, partition: Partition) -> None:
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

    __slots__ = (
        "_all_at_ms",
        "_moved",
        "_wakes",
        "_watched",
        "begun_ms",
        "by_id",
        "epoch",
        "is_follower",
        "named",
        "partitions",
        "session_id",
        "used_ms",
    )

    def __init__(
        self,
        session_id: int,
        partitions: OrderedDict[Key, FetchedPartition],
        now_ms: float,
        *,
        by_id: bool,
        is_follower: bool,
    ) -> None:
        self.session_id = session_id
        self.begun_ms = self.used_ms = now_ms
        self.is_follower = is_follower
        self.partitions = partitions
        self.by_id = by_id
        self.epoch = FIRST_EPOCH + 1
        self.named: Sequence[FetchedPartition] = tuple(partitions.values())
        """The partitions that the request names; from time to time all, to look also at those without news."""
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

    @property
    def worth(self) -> tuple[bool, int]:
        """A follower's is worth more than a consumer's, and a large one more than a small one."""
        return self.is_follower, len(self.partitions)

    def to_look_at(self) -> Sequence[FetchedPartition]:
        """The partitions that may have something to answer."""
        return [self.partitions[key] for key in self._moved]

    def mark_idle(self, asked: FetchedPartition, partition: Partition) -> None:
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


def partitions_max(memory_bytes: int) -> int:
    """How many partitions all sessions may have: they take half of the memory for requests and answers, at most."""
    return sys.maxsize if memory_bytes < 0 else memory_bytes // 2 // PARTITION_BYTES


class FetchSessions:
    """The sessions of all clients, those first that were used longest ago. One that finds no place is not begun, as in Kafka."""

    def __init__(self, random: Random, slots: int, partitions_max: int) -> None:
        self._random = random
        self._slots = slots
        self._partitions_max = partitions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._counted: dict[int, int] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def kept_bytes(self) -> int:
        return self._partitions * PARTITION_BYTES

    def begin(
        self, partitions: OrderedDict[Key, FetchedPartition], now_ms: float, *, by_id: bool, is_follower: bool
    ) -> FetchSession | None:
        """A new session, or None if there is no room for it."""
        if not self._slots or not partitions or len(partitions) > self._partitions_max:
            return None
        worth = is_follower, len(partitions)
        while len(self._sessions) >= self._slots or self._partitions + len(partitions) > self._partitions_max:
            if not self._make_way(worth, now_ms):
                return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int(self._random.fraction() * INT_MAX)
        session = FetchSession(session_id, partitions, now_ms, by_id=by_id, is_follower=is_follower)
        self._sessions[session_id] = session
        self._count(session)
        return session

    def end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= self._counted.pop(session_id)
            session.end()

    def resume(self, session_id: int, epoch: int, now_ms: float, *, by_id: bool) -> FetchSession | ErrorCode:
        """The session, its epoch checked and advanced; or why the client has to begin a new one."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.by_id != by_id:
            return ErrorCode.fetch_session_topic_id_error
        if session.epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.advance()
        session.used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def keep(self, session: FetchSession, now_ms: float) -> bool:
        """After a request has changed it: whether there is room for it still. Others make way where it has grown."""
        if session.session_id not in self._sessions:
            return False
        self._count(session)
        while self._partitions > self._partitions_max:
            if not self._make_way(session.worth, now_ms):
                return False
        return True

    def _count(self, session: FetchSession) -> None:
        partitions = len(session.partitions)
        self._partitions += partitions - self._counted.get(session.session_id, 0)
        self._counted[session.session_id] = partitions

    def _make_way(self, worth: tuple[bool, int], now_ms: float) -> bool:
        """End one session for one that is worth more: Kafka's FetchSessionCache.tryEvict.

        First one that nobody has used for a while. Then of those that are not new the smallest, if it is smaller; a consumer's
        may be new where it is a follower that needs the room.
        """
        least_used = next(iter(self._sessions.values()), None)
        if least_used is None:
            return False
        if now_ms - least_used.used_ms > STALE_MS:
            self.end(least_used.session_id)
            return True
        is_follower, _ = worth
        found = min(
            (
                session
                for session in self._sessions.values()
                if now_ms - session.begun_ms > STALE_MS or (is_follower and not session.is_follower)
            ),
            key=lambda session: session.worth,
            default=None,
        )
        if found is None or found.worth >= worth:
            return False
        self.end(found.session_id)
        return True
