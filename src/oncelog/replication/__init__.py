"""The rules by which the replicas of a partition follow one another, without IO: the leader's side, and the follower's.

`LeaderReplica` keeps how far each follower has come, and says where the high watermark is, who is in sync, and what an append
is answered. `Follower` keeps how a broker stands with the partitions that it fetches from one leader, and turns answers into
steps for their logs. `decide` says what LeaderAndIsr makes of a replica.
"""

from oncelog.replication.fetch_session import FollowerFetch, FollowerFetchSession, PartitionFetch
from oncelog.replication.fetch_state import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    AskOffsets,
    BeginAgain,
    FetchReplicaState,
    Step,
    Truncate,
)
from oncelog.replication.follower import EpochRequest, FetchedFromLeader, Follower
from oncelog.replication.leader import ACKS_ALL, UNKNOWN_OFFSET, FollowerProgress, LeaderReplica, preferred_read_replica
from oncelog.replication.partition_state import (
    AfterAnswer,
    AlterPartition,
    AlterPartitionAnswer,
    Becomes,
    Decided,
    IsrPartitionState,
    IsrState,
    LeaderAndIsrState,
    decide,
)
from oncelog.replication.truncation import EpochEnd, Truncation, truncation

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
    "Becomes",
    "BeginAgain",
    "Decided",
    "EpochEnd",
    "EpochRequest",
    "FetchReplicaState",
    "FetchedFromLeader",
    "Follower",
    "FollowerFetch",
    "FollowerFetchSession",
    "FollowerProgress",
    "IsrPartitionState",
    "IsrState",
    "LeaderAndIsrState",
    "LeaderReplica",
    "PartitionFetch",
    "Step",
    "Truncate",
    "Truncation",
    "decide",
    "preferred_read_replica",
    "truncation",
]
