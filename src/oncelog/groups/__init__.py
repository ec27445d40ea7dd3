"""Groups: their members, the offsets they committed, decisions about both, and what their log holds."""

from oncelog.groups.classic import (
    ClassicGroupDescription,
    ClassicMembership,
    GroupMetadataRecord,
    GroupMetadataValue,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembershipDecision,
    MembershipLimits,
    PendingResponse,
    StoredMember,
    SyncAnswer,
    SyncRequest,
)
from oncelog.groups.commit_context import ANYONE, CommitContext
from oncelog.groups.consumer_limits import ConsumerLimits, LimitsOfGroups, MigrationPolicy
from oncelog.groups.coordinator import (
    CommitDecision,
    GroupCoordinator,
    ListedGroup,
    OffsetDeletion,
    OffsetToCommit,
    Tombstones,
    TopicIds,
)
from oncelog.groups.group_offsets import FetchedOffset, GroupOffsets
from oncelog.groups.members import MembersDecision
from oncelog.groups.offset_records import CommittedOffset, OffsetRecord
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.groups.records import GroupRecord, decode, decode_of_member, encode
from oncelog.groups.timestamps import Timestamps
from oncelog.groups.topics import KnownTopic, KnownTopics

__all__ = [
    "ANYONE",
    "ClassicGroupDescription",
    "ClassicMembership",
    "CommitContext",
    "CommitDecision",
    "CommittedOffset",
    "ConsumerLimits",
    "FetchedOffset",
    "GroupCoordinator",
    "GroupMetadataRecord",
    "GroupMetadataValue",
    "GroupOffsets",
    "GroupRecord",
    "JoinAnswer",
    "JoinRequest",
    "KnownTopic",
    "KnownTopics",
    "LeaveAnswer",
    "Leaving",
    "LimitsOfGroups",
    "ListedGroup",
    "MembersDecision",
    "MembershipDecision",
    "MembershipLimits",
    "MigrationPolicy",
    "OffsetDeletion",
    "OffsetRecord",
    "OffsetToCommit",
    "PendingResponse",
    "StoredMember",
    "StoredOffset",
    "SyncAnswer",
    "SyncRequest",
    "Timestamps",
    "Tombstones",
    "TopicIds",
    "TopicPartition",
    "decode",
    "decode_of_member",
    "encode",
]
