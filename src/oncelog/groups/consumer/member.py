"""A member of a consumer group, as its log has it: its subscription, and its progress towards its target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oncelog.groups.consumer.assignment import NOTHING_OWNED, Owned, Partition
from oncelog.groups.consumer.state import STABLE, MemberState, is_legal

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""A static member that leaves with this epoch will be back: what it has is kept for it."""
NO_TIMEOUT = -1


@dataclass(frozen=True, slots=True)
class ClassicFacts:
    """The session timeout and the JoinGroup fields of a member that follows the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics, or the pattern, that a member asked for. Without a regular expression `regex` is empty."""

    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    assignor: str | None = None
    classic: ClassicFacts | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a member on its way to its target. It may use `owned`; it has to give up `revoking` first."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = STABLE
    owned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    def moved(self, state: MemberState, epoch: int, owned: Owned, revoking: Owned = NOTHING_OWNED) -> Progress:
        assert is_legal(self.state, state), (self.state, state)
        return Progress(epoch, self.epoch, state, owned, revoking)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is STABLE and self.epoch == target_epoch

    def assigned_in(self, partition: Partition) -> int | None:
        """The epoch in which a partition was assigned; None if it is not the member's."""
        epoch = self.owned.get(partition)
        return self.revoking.get(partition) if epoch is None else epoch

    def temporarily_left(self) -> Progress:
        return replace(self, epoch=STATIC_LEAVING_EPOCH, revoking=NOTHING_OWNED, owned=dict.fromkeys(self.owned, 0))


NO_LONGER = Progress(LEAVING_EPOCH, LEAVING_EPOCH)
"""The state of a member while its tombstone is being written."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    member_id: str
    subscription: Subscription = Subscription()
    progress: Progress = Progress()

    @property
    def uses_classic_protocol(self) -> bool:
        return self.subscription.classic is not None

    def renamed(self, member_id: str) -> ConsumerGroupMember:
        """The same static member under a new id: it joins, and keeps what it has."""
        progress = replace(self.progress, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        return ConsumerGroupMember(member_id, self.subscription, progress)

    def with_progress(self, progress: Progress) -> ConsumerGroupMember:
        return replace(self, progress=progress)

    def with_subscription(self, subscription: Subscription) -> ConsumerGroupMember:
        return replace(self, subscription=subscription)
