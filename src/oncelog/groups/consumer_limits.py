"""What the settings of a broker say of consumer groups. Apart from them, so that a broker may start without them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

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
    """What counts for each group. It may change at any time, so it is asked for anew each time."""

    def of(self, group: str, /) -> ConsumerLimits: ...
