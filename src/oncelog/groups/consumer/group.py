"""A consumer group, as its log has it. Only replayed records change it.

Three epochs say how far it is (KIP-848): that of the group, which every change of members, subscriptions and topics
advances; that of the target assignment, which follows it; and one of each member, which follows that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from oncelog.groups.consumer.assignment import NO_TOPICS_HASH, NOTHING, Assignment, Partition, by_topic
from oncelog.groups.consumer.member import NO_LONGER, ConsumerGroupMember
from oncelog.groups.consumer.records import (
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    PartitionMetadataTombstone,
    RegexRecord,
    ResolvedRegex,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.groups.consumer.state import ConsumerGroupState
from oncelog.groups.context import MEMBER_EPOCH_VERSION, CommitContext, GroupType, KnownTopics
from oncelog.wire import ErrorCode

FIRST_EPOCH = 1
NO_EPOCH = -1
NEVER_MS = 0

_NONE = ErrorCode.none


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The epoch of the target assignment, and when it was worked out, in milliseconds since 1970; 0 is never."""

    epoch: int = FIRST_EPOCH
    assigned_ms: int = NEVER_MS


class ConsumerGroup:
    __slots__ = ("_owners", "_static", "epoch", "members", "metadata_hash", "name", "regexes", "target", "target_epoch")

    type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.members: dict[str, ConsumerGroupMember] = {}
        self.target_epoch = TargetEpoch()
        self.target: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._static: dict[str, str] = {}
        self._owners: dict[Partition, str] = {}

    # --- what its records say

    def replay_epoch(self, record: GroupEpochRecord) -> None:
        assert record.epoch is not None
        self.epoch = record.epoch
        self.metadata_hash = record.metadata_hash

    def replay_member(self, record: MemberRecord) -> None:
        before = self.members.get(record.member_id)
        if record.subscription is not None:
            after = (before or ConsumerGroupMember(record.member_id)).with_subscription(record.subscription)
            self.members[record.member_id] = after
            if record.subscription.instance_id is not None:
                self._static[record.subscription.instance_id] = record.member_id
        elif before is not None:
            self._let_go(before)
            del self.members[record.member_id]
            instance_id = before.subscription.instance_id
            if instance_id is not None and self._static.get(instance_id) == record.member_id:
                del self._static[instance_id]

    def replay_target_epoch(self, record: TargetEpochRecord) -> None:
        if record.epoch is None:
            self.target_epoch = TargetEpoch(NO_EPOCH)
        else:
            self.target_epoch = TargetEpoch(record.epoch, record.assigned_ms)

    def replay_target(self, record: TargetRecord) -> None:
        if record.target is None:
            self.target.pop(record.member_id, None)
        else:
            self.target[record.member_id] = record.target

    def replay_current(self, record: CurrentAssignmentRecord) -> None:
        before = self.members.get(record.member_id)
        if before is None:
            if record.progress is None:
                return
            before = ConsumerGroupMember(record.member_id)
        after = before.with_progress(record.progress or NO_LONGER)
        self._let_go(before)
        for partitions in (after.progress.owned, after.progress.revoking):
            self._owners.update(dict.fromkeys(partitions, record.member_id))
        self.members[record.member_id] = after

    def replay_regex(self, record: RegexRecord) -> None:
        if record.resolved is None:
            self.regexes.pop(record.regex, None)
        else:
            self.regexes[record.regex] = record.resolved

    def _let_go(self, member: ConsumerGroupMember) -> None:
        for partition in (*member.progress.owned, *member.progress.revoking):
            if self._owners.get(partition) == member.member_id:
                del self._owners[partition]

    # --- what follows from them

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch.epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.target_epoch.epoch
        if all(member.progress.is_reconciled_to(epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def owners(self) -> Mapping[Partition, str]:
        """The member that has each partition, also one that it is to give up."""
        return self._owners

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        owner = None if instance_id is None else self._static.get(instance_id)
        return None if owner is None else self.members[owner]

    def preferred_assignor(self) -> str | None:
        return preferred_assignor(self.members.values())

    def subscribed_topics(self) -> frozenset[str]:
        return subscribed_topics(self.members.values(), self.regexes)

    def end(self, now_ms: int) -> tuple[ConsumerRecord, ...]:
        """The records that take all of it back."""
        name = self.name
        return (
            *(CurrentAssignmentRecord(name, member_id, None, now_ms) for member_id in self.members),
            *(TargetRecord(name, member_id, None, now_ms) for member_id in self.target),
            TargetEpochRecord(name, None, NEVER_MS, now_ms),
            *(MemberRecord(name, member_id, None, now_ms) for member_id in self.members),
            *(RegexRecord(name, regex, None, now_ms) for regex in self.regexes),
            PartitionMetadataTombstone(name, now_ms),
            GroupEpochRecord(name, None, NO_TOPICS_HASH, now_ms),
        )

    # --- what others ask of any group

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in member.subscription.topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def check_delete(self) -> ErrorCode:
        return ErrorCode.non_empty_group if self.members else _NONE

    def check_offset_delete(self) -> ErrorCode:
        return _NONE

    def retention_start_ms(self, commit_ms: int) -> int:
        """The retention of an offset begins when it is committed; members keep those of their topics."""
        return commit_ms

    @property
    def is_removable(self) -> bool:
        return not self.members

    def check_commit(
        self, member: CommitContext, partitions: Iterable[Partition], *, in_transaction: bool
    ) -> ErrorCode:
        """Check that offsets of these partitions may be committed in this member's name (OffsetCommit v9, KIP-848).

        An epoch that is over is good enough for partitions that the member has had since then.
        """
        epoch = member.generation
        if (epoch < 0 and not self.members) or (in_transaction and member.is_nobody):
            return _NONE
        found = self.members.get(member.member_id)
        if found is None:
            return ErrorCode.unknown_member_id
        if not in_transaction and not found.uses_classic_protocol and member.version < MEMBER_EPOCH_VERSION:
            return ErrorCode.unsupported_version
        progress = found.progress
        if epoch == progress.epoch:
            return _NONE
        stale = ErrorCode.illegal_generation if found.uses_classic_protocol else ErrorCode.stale_member_epoch
        if epoch > progress.epoch:
            return stale
        assigned = [progress.assigned_in(partition) for partition in partitions]
        return _NONE if all(since is not None and since <= epoch for since in assigned) else stale

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check that offsets may be fetched in this member's name (OffsetFetch v9). A request need not name a member."""
        if member_id is None and epoch < 0:
            return _NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        if epoch == member.progress.epoch:
            return _NONE
        return ErrorCode.illegal_generation if member.uses_classic_protocol else ErrorCode.stale_member_epoch


def subscribed_topics(members: Iterable[ConsumerGroupMember], regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names that the members are subscribed to; there need be no such topics."""
    names: set[str] = set()
    for member in members:
        names |= topics_of(member, regexes)
    return frozenset(names)


def topics_of(member: ConsumerGroupMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    resolved = regexes.get(member.subscription.regex or "")
    return member.subscription.topics if resolved is None else member.subscription.topics | resolved.topics


def preferred_assignor(members: Iterable[ConsumerGroupMember]) -> str | None:
    """The one that most members ask for; None if nobody asks."""
    votes = Counter(assignor for member in members if (assignor := member.subscription.assignor) is not None)
    return max(votes, key=lambda name: votes[name]) if votes else None


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    topic_id: UUID
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedConsumer:
    """`assignment` is what the member has, also what it is to give up."""

    member: ConsumerGroupMember
    assignment: tuple[DescribedTopic, ...]
    target: tuple[DescribedTopic, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


def describe_consumers(group: ConsumerGroup, topics: KnownTopics, default_assignor: str) -> ConsumerGroupDescription:
    def described(partitions: Iterable[Partition]) -> tuple[DescribedTopic, ...]:
        return tuple(
            DescribedTopic(topic_id, topic.name, tuple(indexes))
            for topic_id, indexes in by_topic(partitions).items()
            if (topic := topics.with_id(topic_id)) is not None
        )

    members = tuple(
        DescribedConsumer(
            member,
            described((*member.progress.owned, *member.progress.revoking)),
            described(group.target.get(member.member_id, NOTHING)),
        )
        for member in group.members.values()
    )
    assignor = group.preferred_assignor() or default_assignor
    return ConsumerGroupDescription(group.state.value, group.epoch, group.target_epoch.epoch, assignor, members)
