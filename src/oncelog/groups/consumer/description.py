"""What ConsumerGroupDescribe says of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from oncelog.groups.consumer.assignment import NOTHING, Partition, by_topic
from oncelog.groups.consumer.group import ConsumerGroup
from oncelog.groups.consumer.member import ConsumerGroupMember
from oncelog.groups.topics import KnownTopics


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
