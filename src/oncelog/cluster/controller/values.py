"""The controller's values and states of partitions, replicas and brokers, with Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from oncelog.wire import ErrorCode

NO_LEADER = -1
LEADER_DURING_DELETE = -2
INITIAL_LEADER_EPOCH = 0
INITIAL_PARTITION_EPOCH = 0
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
UNKNOWN_BROKER_EPOCH = -1

TopicPartition = tuple[str, int]


class LeaderRecoveryState(IntEnum):
    """RECOVERING: the leader comes from an unclean election and has not recovered yet (KIP-704). The numbers are the protocol's."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The state of a partition as its znode has it. `partition_epoch` is the version of that znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: LeaderRecoveryState
    partition_epoch: int
    controller_epoch: int
    """The epoch of the controller that wrote it."""

    @classmethod
    def initial(cls, leader: int, isr: tuple[int, ...], controller_epoch: int) -> LeaderAndIsr:
        return cls(
            leader,
            INITIAL_LEADER_EPOCH,
            isr,
            LeaderRecoveryState.RECOVERED,
            INITIAL_PARTITION_EPOCH,
            controller_epoch,
        )

    def new_leader_and_isr(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """The next state. Each change that the controller makes begins a leader epoch, also where the leader stays."""
        return replace(self, leader=leader, isr=isr, leader_epoch=self.leader_epoch + 1)

    def new_leader(self, leader: int) -> LeaderAndIsr:
        return self.new_leader_and_isr(leader, self.isr)

    def new_recovering_leader(self, leader: int) -> LeaderAndIsr:
        """The next state after an unclean election: the leader alone is in sync."""
        return replace(self.new_leader_and_isr(leader, (leader,)), recovery_state=LeaderRecoveryState.RECOVERING)

    def new_epoch(self) -> LeaderAndIsr:
        return self.new_leader_and_isr(self.leader, self.isr)

    def by(self, controller_epoch: int) -> LeaderAndIsr:
        """The same state, written by this controller."""
        return replace(self, controller_epoch=controller_epoch)

    def written(self, partition_epoch: int) -> LeaderAndIsr:
        """As it is in the znode after the write that got this version."""
        return replace(self, partition_epoch=partition_epoch)

    def same_state(self, other: LeaderAndIsr) -> bool:
        """Compares all but the epochs of the partition and of the controller."""
        return (self.leader, self.leader_epoch, self.isr, self.recovery_state) == (
            other.leader,
            other.leader_epoch,
            other.isr,
            other.recovery_state,
        )


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of a partition, and those that a reassignment adds and removes (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return _without(self.replicas, self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        """On the way to `target`: its replicas come first, then those that go. What was under way is left."""
        origin = self.origin
        every = tuple(dict.fromkeys(target + origin))
        return ReplicaAssignment(every, _without(every, origin), _without(every, target))

    def remove(self, replica: int) -> ReplicaAssignment:
        gone = (replica,)
        return ReplicaAssignment(
            _without(self.replicas, gone), _without(self.adding, gone), _without(self.removing, gone)
        )


NOT_ASSIGNED = ReplicaAssignment(())


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)


class Replica(NamedTuple):
    partition: TopicPartition
    broker_id: int

    @property
    def topic(self) -> str:
        return self.partition[0]


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A listener of a broker. `security_protocol` is Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker as it has registered itself. `epoch` is the czxid of its znode: a restart gives it a higher one."""

    broker_id: int
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """Name, lowest and highest level, of each feature that it supports."""


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Contents of a topic's znode. A topic of a cluster before Kafka 2.8 has no id."""

    topic_id: UUID | None
    partitions: dict[int, ReplicaAssignment]


class ApiError(NamedTuple):
    """An error code and its message, as a client gets them."""

    code: ErrorCode
    message: str | None = None


def show(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def listed(numbers: tuple[int, ...] | list[int] | set[int]) -> str:
    return ",".join(map(str, numbers))


class PartitionState(Enum):
    """A partition has leaders from ONLINE on; OFFLINE it had one that is gone."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


class ReplicaState(Enum):
    """A replica is deleted in steps: started, then successful; ineligible is one whose broker is away or refused."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


# The states that each may be entered from.
PARTITION_TRANSITIONS: dict[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
_ALIVE = frozenset(
    {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE},
)
REPLICA_TRANSITIONS: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _ALIVE,
    ReplicaState.OFFLINE: _ALIVE,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
