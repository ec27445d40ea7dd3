"""What a client's idea of the leader epoch says about it (KIP-320)."""

from __future__ import annotations

from oncelog.broker.storage.partition import Partition
from oncelog.wire import ErrorCode


def epoch_problem(partition: Partition, client_epoch: int) -> ErrorCode | None:
    """NOT_LEADER_OR_FOLLOWER where another broker leads, KAFKA_STORAGE_ERROR where nobody does, for the log is damaged.

    FENCED_LEADER_EPOCH for a client that is behind, UNKNOWN_LEADER_EPOCH for one ahead; -1 is a client without an idea.
    """
    if partition.problem is not None:
        return partition.problem
    if client_epoch in (-1, partition.leader_epoch):
        return None
    return ErrorCode.fenced_leader_epoch if client_epoch < partition.leader_epoch else ErrorCode.unknown_leader_epoch
