"""What a member of a group is told when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from oncelog.client.values import TopicPartition

SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_INTERVAL_MS = 3_000

OnPartitions = Callable[[frozenset[TopicPartition]], object]


class GroupProtocol(Enum):
    """Who works out the assignment: the members (classic) or the broker (consumer, KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A member of a group. The names are Kafka's."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 300_000
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The user's code around a rebalance. Each gets the partitions it is about, and is called from `poll` or `close`."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    def given(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        return None if self.on_assigned is None else _bound(self.on_assigned, partitions)

    def taken(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        return None if self.on_revoked is None else _bound(self.on_revoked, partitions)

    def lost(self, partitions: frozenset[TopicPartition]) -> Callable[[], object] | None:
        """What was lost counts as revoked where there is no code for the difference."""
        told = self.on_lost or self.on_revoked
        return None if told is None else _bound(told, partitions)


def _bound(function: OnPartitions, partitions: frozenset[TopicPartition]) -> Callable[[], object]:
    return lambda: function(partitions)


@dataclass(slots=True)
class Subscription:
    """What a consumer wants to read as a member, and whom it tells."""

    topics: frozenset[str] = frozenset()
    callbacks: Callbacks = field(default_factory=Callbacks)
