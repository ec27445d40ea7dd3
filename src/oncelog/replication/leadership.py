"""What LeaderAndIsr makes of a replica."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from oncelog.wire import ErrorCode

NO_EPOCH = -1


class LeaderAndIsrTold(NamedTuple):
    """What the controller has decided about a partition, as a LeaderAndIsr request or an AlterPartition answer tells it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class Becomes(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"
    UNCHANGED = "unchanged"


class Decided(NamedTuple):
    """What a replica becomes, and what the controller is answered about it."""

    becomes: Becomes
    error: ErrorCode = ErrorCode.none


def decide(told: LeaderAndIsrTold, broker_id: int, leader_epoch: int, partition_epoch: int) -> Decided:
    """What `told` makes of this broker's replica, which knows of these epochs, -1 if it is new.

    As Kafka's ReplicaManager does it under a ZooKeeper controller: a leader epoch that is not new changes nothing and is answered
    STALE_CONTROLLER_EPOCH, also when it is the same, for every change of the leader or the in-sync set by a controller makes a
    new one. So is a partition epoch that is behind what AlterPartition has told; that is answered without an error.
    """
    if told.leader_epoch <= leader_epoch:
        return Decided(Becomes.UNCHANGED, ErrorCode.stale_controller_epoch)
    if broker_id not in told.replicas:
        return Decided(Becomes.UNCHANGED, ErrorCode.unknown_topic_or_partition)
    if told.partition_epoch < partition_epoch:
        return Decided(Becomes.UNCHANGED)
    return Decided(Becomes.LEADER if told.leader == broker_id else Becomes.FOLLOWER)
