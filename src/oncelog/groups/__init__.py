"""Groups: their members, the offsets they committed, decisions about both, and what their log holds."""

from oncelog.groups.classic import (
    Due,
    GroupDescription,
    GroupMetadata,
    GroupMetadataRecord,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    Membership,
    MembershipDecision,
    MembershipLimits,
    StoredMember,
    SyncAnswer,
    SyncRequest,
)
from oncelog.groups.consumer_limits import ConsumerLimits, MigrationPolicy
from oncelog.groups.coordinator import (
    CommitDecision,
    FetchedOffset,
    GroupCoordinator,
    GroupListing,
    OffsetDeletion,
    OffsetToCommit,
)
from oncelog.groups.member_facts import ANYONE, MemberFacts
from oncelog.groups.members import MembersDecision
from oncelog.groups.moment import Moment
from oncelog.groups.offset_records import CommittedOffset, OffsetRecord
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.groups.records import GroupRecord, decode, encode
from oncelog.groups.topics import Topic, Topics

__all__ = [
    "ANYONE",
    "CommitDecision",
    "CommittedOffset",
    "ConsumerLimits",
    "Due",
    "FetchedOffset",
    "GroupCoordinator",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "GroupMetadataRecord",
    "GroupRecord",
    "JoinAnswer",
    "JoinRequest",
    "LeaveAnswer",
    "Leaving",
    "MemberFacts",
    "MembersDecision",
    "Membership",
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
    "Topic",
    "TopicPartition",
    "Topics",
    "decode",
    "encode",
]
