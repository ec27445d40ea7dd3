"""The leader of a partition: which replicas are in sync, and who waits for them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from oncelog.coordination import Promise
from oncelog.log import PartitionLog, Refused
from oncelog.wire import ErrorCode


class _LedPartition(Protocol):
    """The partition itself."""

    log: PartitionLog

    def limit_offset(self, isolation_level: int) -> int: ...

    def refused(self, problem: ErrorCode) -> Refused: ...


class FollowerId(NamedTuple):
    """A replica that fetches. `epoch` is its broker epoch; -1 where it names none."""

    node_id: int
    epoch: int = -1


class Leading(Protocol):
    """A leader's knowledge of the in-sync set, and what follows from it for the log."""

    def grown(self) -> None:
        """The log has more than before: see whether the high watermark moves."""
        ...

    def problem(self, follower: FollowerId) -> ErrorCode | None:
        """Why somebody who fetches as a replica gets nothing: not_leader_or_follower for one that has none."""
        ...

    def fetched(self, follower: FollowerId, fetch_offset: int, log_start_offset: int) -> None:
        """A follower has everything below the offset that it asks for."""
        ...

    def limit_offset(self, isolation_level: int) -> int:
        """The offset below which somebody may read who fetches as a replica."""
        ...

    def refuses(self) -> Refused | None:
        """NOT_ENOUGH_REPLICAS while fewer are in sync than acks=all asks for."""
        ...

    @property
    def epoch_start_offset(self) -> int:
        """The log end offset at which the leader epoch of this broker began."""
        ...

    @property
    def low_watermark(self) -> int:
        """The smallest durable log start offset of the replicas that are alive: what is before it, none of them has again."""
        ...

    def preferred_replica(self, rack: str, fetch_offset: int) -> int | None:
        """The follower that a consumer in this rack is to read from (KIP-392); None if it stays here."""
        ...

    def committed(self, offset: int) -> Promise[ErrorCode]:
        """Resolved when everything below the offset is below the high watermark.

        With an error when that is not certain any more: not_leader_or_follower, not_enough_replicas_after_append.
        """
        ...


class _OneReplica:
    """The answers that do not depend on other replicas."""

    __slots__ = ("_partition",)

    def __init__(self, partition: _LedPartition) -> None:
        self._partition = partition

    epoch_start_offset = 0
    """Nothing above the high watermark was ever below that of another leader."""

    @property
    def low_watermark(self) -> int:
        return self._partition.log.durable_start_offset

    def problem(self, follower: FollowerId) -> ErrorCode | None:
        return None

    def fetched(self, follower: FollowerId, fetch_offset: int, log_start_offset: int) -> None:
        """Nobody counts: the in-sync set has no others."""

    def limit_offset(self, isolation_level: int) -> int:
        return self._partition.limit_offset(isolation_level)

    def preferred_replica(self, rack: str, fetch_offset: int) -> int | None:
        return None


class SoleReplica(_OneReplica):
    """The leader of a partition with one replica: it is the in-sync set.

    Records are below the high watermark as soon as they are as durable as flush.messages asks.
    """

    __slots__ = ()

    def grown(self) -> None:
        log = self._partition.log
        log.advance_high_watermark(log.durability.acknowledged_offset)

    def refuses(self) -> Refused | None:
        return None

    def committed(self, offset: int) -> Promise[ErrorCode]:
        return _COMMITTED


class NotLeading(_OneReplica):
    """The place of a leader where another broker leads, or none."""

    __slots__ = ()

    def grown(self) -> None:
        """The high watermark comes from the leader."""

    def refuses(self) -> Refused | None:
        return self._partition.refused(ErrorCode.not_leader_or_follower)

    def committed(self, offset: int) -> Promise[ErrorCode]:
        return _NOT_LED


_COMMITTED = Promise.ready(ErrorCode.none)
_NOT_LED = Promise.ready(ErrorCode.not_leader_or_follower)
