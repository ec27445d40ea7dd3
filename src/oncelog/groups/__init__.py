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
from oncelog.groups.coordinator import (
    ANYONE,
    CommitDecision,
    FetchedOffset,
    GroupCoordinator,
    GroupListing,
    MemberFacts,
    OffsetDeletion,
    OffsetToCommit,
)
from oncelog.groups.moment import Moment
from oncelog.groups.offset_records import CommittedOffset, OffsetRecord
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.groups.records import GroupRecord, decode, encode

__all__ = [
    "ANYONE",
    "CommitDecision",
    "CommittedOffset",
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
    "Membership",
    "MembershipDecision",
    "MembershipLimits",
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
