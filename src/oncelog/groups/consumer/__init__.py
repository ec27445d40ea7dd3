"""Consumer groups of KIP-848: the coordinator assigns the partitions, and members follow at their own pace."""

from oncelog.groups.consumer.assignment import Assignment, Partition, by_topic
from oncelog.groups.consumer.group import ConsumerGroup, ConsumerGroupDescription, DescribedConsumer, DescribedTopic
from oncelog.groups.consumer.heartbeat import HeartbeatAnswer, HeartbeatRequest, Refusal
from oncelog.groups.consumer.member import ClassicFacts, ConsumerGroupMember, Progress, Subscription
from oncelog.groups.consumer.membership import ConsumerMembership, HeartbeatDecision
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
from oncelog.groups.consumer.state import ConsumerGroupState, MemberState

__all__ = [
    "Assignment",
    "ClassicFacts",
    "ConsumerGroup",
    "ConsumerGroupDescription",
    "ConsumerGroupMember",
    "ConsumerGroupState",
    "ConsumerMembership",
    "ConsumerRecord",
    "CurrentAssignmentRecord",
    "DescribedConsumer",
    "DescribedTopic",
    "GroupEpochRecord",
    "HeartbeatAnswer",
    "HeartbeatDecision",
    "HeartbeatRequest",
    "MemberRecord",
    "MemberState",
    "Partition",
    "PartitionMetadataTombstone",
    "Progress",
    "Refusal",
    "RegexRecord",
    "ResolvedRegex",
    "Subscription",
    "TargetEpochRecord",
    "TargetRecord",
    "by_topic",
]
