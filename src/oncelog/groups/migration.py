"""Turning a group with members from one protocol to the other (KIP-848, "online migration").

Both directions keep members, what they have, and the number that generations and epochs go on from.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog.groups.classic import ClassicGroup, GroupMetadataValue, StoredMember
from oncelog.groups.consumer import ConsumerGroup
from oncelog.groups.consumer.assignment import metadata_hash
from oncelog.groups.consumer.classic_members import assignment_of, by_id, read_assignment, read_subscription
from oncelog.groups.consumer.group import NEVER_MS
from oncelog.groups.consumer.member import ClassicFacts, ConsumerGroupMember, Progress, Subscription
from oncelog.groups.consumer.records import (
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.groups.consumer.state import STABLE
from oncelog.groups.context import KnownTopics


def upgraded(group: ClassicGroup, topics: KnownTopics, now_ms: int) -> tuple[ConsumerRecord, ...] | None:
    """A classic group as a consumer group, or None if what its members say is not known here."""
    if not group.uses_consumer_protocol or group.protocol is None:
        return None
    epoch = group.generation
    records: list[ConsumerRecord] = []
    names: set[str] = set()
    for member in group.members.values():
        subscription = read_subscription(member.subscription(group.protocol))
        assignment = read_assignment(member.assignment)
        if subscription is None or assignment is None:
            return None
        names |= subscription.topics
        has = by_id(assignment, topics)
        said = Subscription(
            instance_id=member.instance_id,
            rack=subscription.rack,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicFacts(member.session_timeout_ms, member.protocols),
        )
        progress = Progress(epoch, epoch, STABLE, dict.fromkeys(has, epoch))
        records += (
            MemberRecord(group.name, member.member_id, said, now_ms),
            TargetRecord(group.name, member.member_id, has, now_ms),
            CurrentAssignmentRecord(group.name, member.member_id, progress, now_ms),
        )
    return (
        *records,
        GroupEpochRecord(group.name, epoch, metadata_hash(topics, names), now_ms),
        TargetEpochRecord(group.name, epoch, NEVER_MS, now_ms),
    )


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], topics: KnownTopics, now_ms: int
) -> GroupMetadataValue | None:
    """The members that stay as a classic group; None if one of them follows the consumer protocol, or nobody stays."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    known = [member.subscription.classic for member in staying]
    facts = [classic for classic in known if classic is not None]
    if not staying or len(facts) < len(staying):
        return None
    common = [name for name, _ in facts[0].protocols if all(name in dict(classic.protocols) for classic in facts)]
    if not common:
        return None
    members = tuple(_stored(member, classic, common[0], topics) for member, classic in zip(staying, facts, strict=True))
    return GroupMetadataValue("consumer", group.epoch, common[0], members[0].member_id, now_ms, members)


def _stored(member: ConsumerGroupMember, classic: ClassicFacts, protocol: str, topics: KnownTopics) -> StoredMember:
    metadata = dict(classic.protocols)[protocol]
    subscription = read_subscription(metadata)
    version = 0 if subscription is None else subscription.version
    said = member.subscription
    return StoredMember(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        classic.session_timeout_ms,
        metadata,
        assignment_of(version, frozenset(member.progress.owned), topics),
    )
