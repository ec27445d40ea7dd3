"""The context of a decision about a group: the time, the committing member, the settings, and the topics of the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID


class Timestamps(NamedTuple):
    """Records carry `wall_ms`, milliseconds since 1970; deadlines are of `steady_ms`, which no change of the date moves."""

    wall_ms: int
    steady_ms: float


class GroupType(Enum):
    """The values are those of ListGroups; requests may write them in any case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


NO_GENERATION = -1
MEMBER_EPOCH_VERSION = 9
"""The first version of OffsetCommit whose generation may be a member epoch (KIP-848)."""


class CommitContext(NamedTuple):
    """`generation` is the member epoch of newer groups, `version` that of OffsetCommit."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None
    version: int = MEMBER_EPOCH_VERSION

    @property
    def is_nobody(self) -> bool:
        return self.generation == NO_GENERATION and not self.member_id and self.instance_id is None


ANYONE = CommitContext()


SIZE_MAX = 2**31 - 1


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: which way a group with members may change its protocol."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ConsumerLimits(NamedTuple):
    """The settings group.consumer.* under their own names. The first assignor is that of members that ask for none."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    size_max: int = SIZE_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    assignment_interval_ms: int = 1_000
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    def of(self, _group: str, /) -> ConsumerLimits:
        """Every group has these, where none has settings of its own."""
        return self


class LimitsOfGroups(Protocol):
    """The limits of each group. They may change at any time: ask anew each time."""

    def of(self, group: str, /) -> ConsumerLimits: ...


class KnownTopic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class KnownTopics(Protocol):
    """Every topic. `version` is another after a topic was made, deleted or given more partitions."""

    @property
    def version(self) -> int: ...
    def named(self, name: str) -> KnownTopic | None: ...
    def with_id(self, topic_id: UUID) -> KnownTopic | None: ...
    def __iter__(self) -> Iterator[KnownTopic]: ...


class _NoTopics:
    version = 0

    def named(self, name: str) -> None:
        return None

    def with_id(self, topic_id: UUID) -> None:
        return None

    def __iter__(self) -> Iterator[KnownTopic]:
        return iter(())


NO_TOPICS: KnownTopics = _NoTopics()
