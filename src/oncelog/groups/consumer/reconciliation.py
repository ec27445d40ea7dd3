"""Moves a member towards its target: it gives up partitions first, then takes free ones, and waits for the others (KIP-848).

"Revoke any partitions that it does not own anymore", then "assign any partitions that are free": a partition has one
owner at any time, and the coordinator knows which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from oncelog.groups.consumer.assignment import Assignment, Owned, Partition
from oncelog.groups.consumer.member import ConsumerGroupMember, Progress
from oncelog.groups.consumer.state import STABLE, UNKNOWN, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The input of one step of a member.

    `reported` is what it says it owns, or None if it does not say; `wanted` the topics
    that it is subscribed to.
    """

    target_epoch: int
    target: Assignment
    wanted: frozenset[UUID]
    owners: Mapping[Partition, str]
    reported: Assignment | None
    has_subscription_changed: bool

    def of(self, member: ConsumerGroupMember) -> Progress | None:
        """The next step, which may be where it is; None for a member that has to abandon everything and join again."""
        before = member.progress
        if before.state is STABLE and before.epoch == self.target_epoch:
            return self._without_unwanted(before) if self.has_subscription_changed else before
        if before.state is UNREVOKED_PARTITIONS and self._still_owns(before.revoking):
            return self._without_unwanted(before) if self.has_subscription_changed else before
        if before.state is UNKNOWN and (self.reported is None or self.reported):
            return None
        return self._towards_target(before)

    def _still_owns(self, partitions: Owned) -> bool:
        return self.reported is None or any(partition in partitions for partition in self.reported)

    def _without_unwanted(self, before: Progress) -> Progress:
        """Topics that it is not subscribed to any more are taken from it at once, whatever the target says."""
        numbers = {topic_id.int for topic_id in self.wanted}
        owned = {one: epoch for one, epoch in before.owned.items() if one[0].int in numbers}
        if len(owned) == len(before.owned):
            return before
        revoking = {**before.revoking, **{one: epoch for one, epoch in before.owned.items() if one not in owned}}
        if self._still_owns(revoking):
            return before.moved(UNREVOKED_PARTITIONS, before.epoch, owned, revoking)
        return before.moved(before.state, before.epoch, owned, before.revoking)

    def _wanted_target(self) -> Assignment:
        """The target without topics that it is not subscribed to any more."""
        # By their numbers: to hash an id takes many times as long, and there may be ten thousand partitions.
        numbers = {topic_id.int for topic_id in self.wanted}
        unwanted = [one for one in self.target if one[0].int not in numbers]
        return self.target.difference(unwanted) if unwanted else self.target

    def _towards_target(self, before: Progress) -> Progress:
        target = self._wanted_target()
        owned = {partition: epoch for partition, epoch in before.owned.items() if partition in target}
        revoking = {partition: epoch for partition, epoch in before.owned.items() if partition not in target}
        if revoking and self._still_owns(revoking):
            return before.moved(UNREVOKED_PARTITIONS, before.epoch, owned, revoking)
        missing = target.difference(owned) if owned else target
        # What it is about to give up itself is free for it.
        free = missing
        if not self.owners.keys().isdisjoint(missing):
            free = frozenset(one for one in missing if one not in self.owners or one in before.revoking)
        owned.update(dict.fromkeys(free, self.target_epoch))
        state = STABLE if len(free) == len(missing) else UNRELEASED_PARTITIONS
        return before.moved(state, self.target_epoch, owned)
