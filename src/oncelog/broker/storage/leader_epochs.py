"""What a client's idea of the leader epoch says about it (KIP-320)."""

from __future__ import annotations

from oncelog.broker.storage.partition import Partition, Role
from oncelog.wire import ErrorCode

UNTOLD = -1
"""The leader epoch of a replica that no controller has spoken of, and of a client without an idea."""


def epoch_problem(partition: Partition, client_epoch: int, *, only_from_leader: bool = True) -> ErrorCode | None:
    """Why a client is not served from this broker's log, which may be a follower's where not `only_from_leader`.

    KAFKA_STORAGE_ERROR where nobody can read it; FENCED_LEADER_EPOCH for a client that is behind, UNKNOWN_LEADER_EPOCH for one
    ahead, also of a follower; NOT_LEADER_OR_FOLLOWER where another broker leads, or has the only replicas. In the order of Kafka's
    Partition.getLocalLog.
    """
    if partition.is_offline:
        return ErrorCode.kafka_storage_error
    if partition.role in (Role.NONE, Role.LEAVING) or partition.leader_epoch == UNTOLD:
        return ErrorCode.not_leader_or_follower
    if client_epoch not in (UNTOLD, partition.leader_epoch):
        is_behind = client_epoch < partition.leader_epoch
        return ErrorCode.fenced_leader_epoch if is_behind else ErrorCode.unknown_leader_epoch
    if only_from_leader and partition.role is not Role.LEADER:
        return ErrorCode.not_leader_or_follower
    return None
