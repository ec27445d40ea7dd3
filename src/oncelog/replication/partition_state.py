"""A replica's role by LeaderAndIsr, and the in-sync set as its leader knows it while it asks to change it (KIP-497).

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from oncelog.wire import ErrorCode

NO_EPOCH = -1


class LeaderAndIsrState(NamedTuple):
    """The controller's decision about a partition, as in a LeaderAndIsr request or an AlterPartition answer."""

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
    """The new role of a replica, and the error for the controller."""

    becomes: Becomes
    error: ErrorCode = ErrorCode.none


def decide(told: LeaderAndIsrState, broker_id: int, leader_epoch: int, partition_epoch: int) -> Decided:
    """The role that `told` gives this broker's replica, which knows of these epochs, -1 if it is new.

    As Kafka's ReplicaManager does it under a ZooKeeper controller: a leader epoch that is not new changes nothing and is answered
    STALE_CONTROLLER_EPOCH, also when it is the same, for every change of the leader or the in-sync set by a controller makes a
    new one. A partition epoch behind that of an AlterPartition answer changes nothing either; it is answered without an error.
    """
    if told.leader_epoch <= leader_epoch:
        return Decided(Becomes.UNCHANGED, ErrorCode.stale_controller_epoch)
    if broker_id not in told.replicas:
        return Decided(Becomes.UNCHANGED, ErrorCode.unknown_topic_or_partition)
    if told.partition_epoch < partition_epoch:
        return Decided(Becomes.UNCHANGED)
    return Decided(Becomes.LEADER if told.leader == broker_id else Becomes.FOLLOWER)


class IsrState(Enum):
    """Kafka's names."""

    COMMITTED = "CommittedPartitionState"
    PENDING_EXPAND = "PendingExpandIsr"
    PENDING_SHRINK = "PendingShrinkIsr"


# (from, to) -> what moves a partition along that edge.
TRANSITIONS: dict[tuple[IsrState, IsrState], str] = {
    (IsrState.COMMITTED, IsrState.PENDING_EXPAND): "a follower has caught up",
    (IsrState.COMMITTED, IsrState.PENDING_SHRINK): "replica.lag.time.max.ms is over",
    (IsrState.PENDING_EXPAND, IsrState.COMMITTED): "AlterPartition is answered, or LeaderAndIsr comes",
    (IsrState.PENDING_SHRINK, IsrState.COMMITTED): "AlterPartition is answered, or LeaderAndIsr comes",
    (IsrState.COMMITTED, IsrState.COMMITTED): "LeaderAndIsr",
}


class AlterPartition(NamedTuple):
    """The leader's request to the controller. The partition epoch is that of the state it wants to change."""

    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    new_isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrPartitionState:
    """`isr` is what the controller has written down. `asked` is under way unless the state is COMMITTED."""

    state: IsrState
    isr: frozenset[int]
    asked: AlterPartition | None = None

    @property
    def is_pending(self) -> bool:
        return self.state is not IsrState.COMMITTED

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that the high watermark waits for: all that may be in the in-sync set, whatever becomes of the request.

        KIP-497: a replica that is to be added counts at once, and one that is to be removed counts until it is.
        """
        if self.state is IsrState.PENDING_EXPAND and self.asked is not None:
            return self.isr.union(self.asked.new_isr)
        return self.isr

    def pending(self, state: IsrState, asked: AlterPartition) -> IsrPartitionState:
        return self._moved(IsrPartitionState(state, self.isr, asked))

    def committed(self, isr: frozenset[int]) -> IsrPartitionState:
        return self._moved(IsrPartitionState(IsrState.COMMITTED, isr))

    def reset(self) -> IsrPartitionState:
        """Back to what the controller has written down."""
        return self._moved(replace(self, state=IsrState.COMMITTED, asked=None))

    def _moved(self, after: IsrPartitionState) -> IsrPartitionState:
        assert (self.state, after.state) in TRANSITIONS, (self, after)
        return after


class AlterPartitionAnswer(NamedTuple):
    """The controller's answer about one partition; without an error, the state that is written down now.

    `error` is that of the whole answer if it has one; REQUEST_TIMED_OUT stands for no answer at all.
    """

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class AfterAnswer(Enum):
    """The effect of an answer on its request."""

    COMMITTED = "the in-sync set is as the controller says"
    RESET = "the controller refused, and has written down what it had"
    WAITS = "it is pending until the next LeaderAndIsr: nobody knows whether it was carried out"
    RETRY = "the same is asked again"
    STALE = "the partition has gone on since it was asked"


# Kafka's Partition.handleAlterPartitionError. Whatever is in neither may be answered otherwise when it is asked again:
# NOT_CONTROLLER, STALE_BROKER_EPOCH, REQUEST_TIMED_OUT, a connection that broke.
NOT_APPLIED = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
NEEDS_NEWS = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


def after_answer(
    current: IsrPartitionState,
    leader_epoch: int,
    partition_epoch: int,
    asked: AlterPartition,
    answer: AlterPartitionAnswer,
) -> AfterAnswer:
    """The effect of an answer to `asked` on the state that the leader is in by now."""
    if current.asked != asked:
        return AfterAnswer.STALE
    if answer.error in NOT_APPLIED:
        return AfterAnswer.RESET
    if answer.error in NEEDS_NEWS:
        return AfterAnswer.WAITS
    if answer.error is not ErrorCode.none:
        return AfterAnswer.RETRY
    # The controller may have gone on, and so may the leader: then the next LeaderAndIsr says what is true.
    if answer.leader_epoch != leader_epoch or answer.partition_epoch < partition_epoch:
        return AfterAnswer.WAITS
    return AfterAnswer.COMMITTED
