"""Groups: their members, the offsets they committed, decisions about both, and what their log holds."""

from oncelog.groups.classic import (
    ClassicGroupDescription,
    ClassicMembership,
    Due,
    GroupMetadataRecord,
    GroupMetadataValue,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembershipDecision,
    MembershipLimits,
    StoredMember,
    SyncAnswer,
    SyncRequest,
)
from oncelog.groups.consumer_limits import ConsumerLimits, LimitsOfGroups, MigrationPolicy
from oncelog.groups.coordinator import (
    CommitDecision,
    FetchedOffset,
    GroupCoordinator,
    ListedGroup,
    OffsetDeletion,
    OffsetToCommit,
)
from oncelog.groups.member_facts import ANYONE, MemberFacts
from oncelog.groups.members import MembersDecision
from oncelog.groups.moment import Moment
from oncelog.groups.offset_records import CommittedOffset, OffsetRecord
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.groups.records import GroupRecord, decode, encode
from oncelog.groups.topics import KnownTopic, KnownTopics

__all__ = [
    "ANYONE",
    "ClassicGroupDescription",
    "ClassicMembership",
    "CommitDecision",
    "CommittedOffset",
    "ConsumerLimits",
    "Due",
    "FetchedOffset",
    "GroupCoordinator",
    "GroupMetadataRecord",
    "GroupMetadataValue",
    "GroupRecord",
    "JoinAnswer",
    "JoinRequest",
    "KnownTopic",
    "KnownTopics",
    "LeaveAnswer",
    "Leaving",
    "LimitsOfGroups",
    "ListedGroup",
    "MemberFacts",
    "MembersDecision",
    "MembershipDecision",
    "MembershipLimits",
    "MigrationPolicy",
    "Moment",
    "OffsetDeletion",
    "OffsetRecord",
    "OffsetToCommit",
    "StoredMember",
    "StoredOffset",
    "SyncAnswer",
    "SyncRequest",
    "TopicPartition",
    "decode",
    "encode",
]
