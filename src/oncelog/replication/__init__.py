"""The rules by which the replicas of a partition follow one another, without IO: the leader's side, and the follower's.

`LeaderReplica` keeps how far each follower has come, and says where the high watermark is, who is in sync, and what an append
is answered. `Follower` keeps how a broker stands with the partitions that it fetches from one leader, and turns answers into
steps for their logs. `decide` says what LeaderAndIsr makes of a replica.
"""

from oncelog.replication.fetch_session import AskedPartition, FetchAsked, FollowerFetchSession
from oncelog.replication.fetch_state import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    AskOffsets,
    BeginAgain,
    FetchReplicaState,
    FetchState,
    Step,
    Truncate,
)
from oncelog.replication.follower import EpochAsked, FetchedFromLeader, Follower
from oncelog.replication.leader import ACKS_ALL, UNKNOWN_OFFSET, FollowerProgress, LeaderReplica, preferred_read_replica
from oncelog.replication.partition_state import (
    AfterAnswer,
    AlterPartition,
    AlterPartitionAnswer,
    Becomes,
    Decided,
    IsrPartitionState,
    IsrState,
    LeaderAndIsrTold,
    decide,
)
from oncelog.replication.truncation import EpochEnd, FollowedLog, Truncation, divergence, truncation

__all__ = [
    "ACKS_ALL",
    "UNKNOWN_OFFSET",
    "AdvanceHighWatermark",
    "AdvanceLogStart",
    "AfterAnswer",
    "AlterPartition",
    "AlterPartitionAnswer",
    "Append",
    "AskOffsets",
    "AskedPartition",
    "Becomes",
    "BeginAgain",
    "Decided",
    "EpochAsked",
    "EpochEnd",
    "FetchAsked",
    "FetchReplicaState",
    "FetchState",
    "FetchedFromLeader",
    "FollowedLog",
    "Follower",
    "FollowerFetchSession",
    "FollowerProgress",
    "IsrPartitionState",
    "IsrState",
    "LeaderAndIsrTold",
    "LeaderReplica",
    "Step",
    "Truncate",
    "Truncation",
    "decide",
    "divergence",
    "preferred_read_replica",
    "truncation",
]
