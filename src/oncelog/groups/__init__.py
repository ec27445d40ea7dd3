"""Consumer groups: the offsets they committed, decisions about them, and what their log holds."""

from oncelog.groups.coordinator import (
    ANYONE,
    CommitDecision,
    FetchedOffset,
    MemberFacts,
    OffsetCoordinator,
    OffsetToCommit,
)
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.groups.records import CommittedOffset, OffsetRecord, decode, encode

__all__ = [
    "ANYONE",
    "CommitDecision",
    "CommittedOffset",
    "FetchedOffset",
    "MemberFacts",
    "OffsetCoordinator",
    "OffsetRecord",
    "OffsetToCommit",
    "StoredOffset",
    "TopicPartition",
    "decode",
    "encode",
]
