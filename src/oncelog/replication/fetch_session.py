"""The follower's end of an incremental fetch session (KIP-227): what of all its partitions a request has to name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from oncelog.wire import ErrorCode

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
INT_MAX = 2**31 - 1

TopicPartition = tuple[str, int]


class PartitionFetch(NamedTuple):
    """One partition of a Fetch from a follower."""

    topic_id: UUID
    fetch_offset: int
    log_start_offset: int
    size_bytes_max: int
    current_leader_epoch: int
    last_fetched_epoch: int


class FollowerFetch(NamedTuple):
    """A Fetch: the partitions that it names, and those that the session is to forget. `is_full` begins a session, or has none."""

    session_id: int
    session_epoch: int
    partitions: Mapping[TopicPartition, PartitionFetch]
    forgotten: tuple[tuple[TopicPartition, UUID], ...]

    @property
    def is_full(self) -> bool:
        return self.session_epoch in (FIRST_EPOCH, FINAL_EPOCH)


class FollowerFetchSession:
    """With one leader, one request at a time: each `build` is followed by `answered` or `lost`.

    An error of the whole answer, or none at all, ends the session; the next request begins another one.
    """

    __slots__ = ("_epoch", "_session_id", "partitions")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        """The partitions of the last request, named in it or not."""

    @property
    def begins(self) -> bool:
        """True if the next request has to name all partitions."""
        return self._epoch == FIRST_EPOCH

    def build(self, wanted: Mapping[TopicPartition, PartitionFetch]) -> FollowerFetch | None:
        """The next request, for all that is wanted; None if there is nothing to ask for, and nothing to forget."""
        before, self.partitions = self.partitions, dict(wanted)
        if self._epoch == FIRST_EPOCH:
            return FollowerFetch(self._session_id, self._epoch, self.partitions, ()) if wanted else None
        named = {key: asked for key, asked in wanted.items() if before.get(key) != asked}
        # A topic of the same name with another id is another topic: the old one is to be forgotten besides.
        forgotten = tuple(
            (key, asked.topic_id)
            for key, asked in before.items()
            if key not in wanted or wanted[key].topic_id != asked.topic_id
        )
        if not wanted and not forgotten:
            return None
        return FollowerFetch(self._session_id, self._epoch, named, forgotten)

    def build_changed(self, changed: Mapping[TopicPartition, PartitionFetch | None]) -> FollowerFetch | None:
        """The same where only these may be wanted otherwise than before, or with None not at all. Not if the session `begins`."""
        named: dict[TopicPartition, PartitionFetch] = {}
        forgotten: list[tuple[TopicPartition, UUID]] = []
        for key, asked in changed.items():
            before = self.partitions.pop(key, None)
            if before is not None and (asked is None or asked.topic_id != before.topic_id):
                forgotten.append((key, before.topic_id))
            if asked is not None:
                self.partitions[key] = asked
                if asked != before:
                    named[key] = asked
        if not self.partitions and not forgotten:
            return None
        return FollowerFetch(self._session_id, self._epoch, named, tuple(forgotten))

    def answered(self, asked: FollowerFetch, error: ErrorCode, session_id: int) -> None:
        """Take the error and the session id of an answer."""
        if error is ErrorCode.fetch_session_id_not_found:
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        elif error is not ErrorCode.none:
            self.lost()
        elif session_id == NO_SESSION:
            # The leader keeps no session for it, or no longer.
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        elif asked.is_full:
            self._session_id, self._epoch = session_id, FIRST_EPOCH + 1
        else:
            self._epoch = 1 if self._epoch == INT_MAX else self._epoch + 1

    def lost(self) -> None:
        """No answer came. The leader may have taken the request: the next one ends the session there and begins another one."""
        self._epoch = FIRST_EPOCH
