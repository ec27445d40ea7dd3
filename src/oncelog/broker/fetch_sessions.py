"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only what is new is answered.

session id   epoch   meaning
0            0       begin a session
any          -1      fetch without a session; a session that is named is ended
id           n       go on: the request holds only what differs from the last one
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from oncelog.environment import Random
from oncelog.wire import ErrorCode

FINAL_EPOCH = -1
FIRST_EPOCH = 0
NO_SESSION = 0
INT_MAX = 2**31 - 1

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


class FetchSession:
    """The partitions of one session, those that were answered longest ago first."""

    __slots__ = ("by_id", "epoch", "partitions", "session_id")

    def __init__(self, session_id: int, partitions: OrderedDict[Key, FetchedPartition], *, by_id: bool) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.by_id = by_id
        self.epoch = FIRST_EPOCH + 1

    def update(self, asked: OrderedDict[Key, FetchedPartition], forgotten: list[Key]) -> None:
        for key, partition in asked.items():
            known = self.partitions.get(key)
            if known is not None:
                partition.name = known.name
                partition.told_high_watermark = known.told_high_watermark
                partition.told_log_start_offset = known.told_log_start_offset
            self.partitions[key] = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == INT_MAX else self.epoch + 1


class FetchSessions:
    """The sessions of all clients. When there is no room the one that was used longest ago makes way."""

    def __init__(self, random: Random, slots: int) -> None:
        self._random = random
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, partitions: OrderedDict[Key, FetchedPartition], *, by_id: bool) -> FetchSession | None:
        """A new session, or None if this broker keeps none."""
        if not self._slots or not partitions:
            return None
        while len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int(self._random.fraction() * INT_MAX)
        session = FetchSession(session_id, partitions, by_id=by_id)
        self._sessions[session_id] = session
        return session

    def end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

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
