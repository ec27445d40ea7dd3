"""Groups of the classic protocol: the members choose one of themselves, and that one assigns the partitions."""

from oncelog.groups.classic.decision_builder import MembershipDecision, PendingResponse
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.member import (
    GroupAnswer,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncRequest,
)
from oncelog.groups.classic.membership import (
    NO_SUCH_GROUP,
    ClassicGroupDescription,
    ClassicMembership,
    DescribedMember,
    MembershipLimits,
    describe,
)
from oncelog.groups.classic.metadata import GroupMetadataRecord, GroupMetadataValue, StoredMember
from oncelog.groups.classic.state import ClassicState

__all__ = [
    "NO_SUCH_GROUP",
    "ClassicGroup",
    "ClassicGroupDescription",
    "ClassicMembership",
    "ClassicState",
    "DescribedMember",
    "GroupAnswer",
    "GroupMetadataRecord",
    "GroupMetadataValue",
    "JoinAnswer",
    "JoinRequest",
    "LeaveAnswer",
    "Leaving",
    "MembershipDecision",
    "MembershipLimits",
    "PendingResponse",
    "StoredMember",
    "SyncAnswer",
    "SyncRequest",
    "describe",
]
