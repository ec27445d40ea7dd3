"""The controller's writes to ZooKeeper and requests to brokers as values, and the port by which it reads, writes and sends.

Each event of the controller is one flow. Events are served one at a time: while a flow waits, nothing else changes the controller.
Once another controller is elected, the port raises an exception, and the flow ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from oncelog.cluster.controller.values import LeaderAndIsr, RegisteredBroker, ReplicaAssignment, TopicPartition
from oncelog.cluster.zookeeper.session import ZooKeeperError


class LeaderAndIsrPartition(NamedTuple):
    partition: TopicPartition
    state: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool
    """The replica is new, so any log directory may get it. An existing one may be in an offline directory."""


class UpdateMetadataPartition(NamedTuple):
    partition: TopicPartition
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class StopReplicaPartition(NamedTuple):
    partition: TopicPartition
    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """LeaderAndIsr to one broker: partitions to lead and follow, and the addresses of their leaders."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[LeaderAndIsrPartition, ...]
    topic_ids: dict[str, UUID]
    live_leaders: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """UpdateMetadata to one broker: changed partitions, and all live brokers."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    topic_ids: dict[str, UUID]
    live_brokers: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """StopReplica to one broker: partitions to stop, and which of them to delete."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


BrokerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class CreatePartitionState:
    """Creates the znode of a partition with its first state, and those above it where they are missing."""

    partition: TopicPartition
    state: LeaderAndIsr


@dataclass(frozen=True, slots=True)
class SetPartitionState:
    """Writes the next state, if the znode still has the version `state.partition_epoch`."""

    partition: TopicPartition
    state: LeaderAndIsr


@dataclass(frozen=True, slots=True)
class SetTopicAssignment:
    topic: str
    topic_id: UUID | None
    partitions: dict[int, ReplicaAssignment]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Deletes the znode of a topic with all below it, then its settings, then the order to delete it."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeleteTopicDeletion:
    """Removes the order to delete a topic, which is not carried out."""

    topic: str


@dataclass(frozen=True, slots=True)
class SetReassignments:
    """Leaves these reassignments in `/admin/reassign_partitions`; without any the znode is deleted."""

    targets: dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DeletePreferredElection:
    """Removes the order for preferred elections, which was carried out."""


@dataclass(frozen=True, slots=True)
class DeleteNotification:
    """Removes a served child of `/isr_change_notification` or `/log_dir_event_notification`."""

    path: str


ControllerWrite = (
    CreatePartitionState
    | SetPartitionState
    | SetTopicAssignment
    | DeleteTopic
    | DeleteTopicDeletion
    | SetReassignments
    | DeletePreferredElection
    | DeleteNotification
)
Outcome = int | ZooKeeperError
"""The outcome of a write: the version that the znode has now, or why it was not done."""


class ControllerActions(Protocol):
    """Reads, writes and requests of one controller."""

    async def write_all(self, writes: Iterable[ControllerWrite]) -> tuple[Outcome, ...]:
        """Makes each write by itself, with a check that `/controller_epoch` is still this controller's."""
        ...

    async def read_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        """The states of those partitions that have one."""
        ...

    async def read_unclean_election(self, topics: Collection[str]) -> dict[str, bool]:
        """Says of each topic whether it allows unclean elections; a topic whose settings cannot be read is left out."""
        ...

    async def read_reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        """The orders of `/admin/reassign_partitions`; None where there is no such znode."""
        ...

    def send(self, requests: Iterable[BrokerRequest]) -> None:
        """Queues each request for its broker, behind the requests that were queued before."""
        ...

    async def await_answers(self) -> None:
        """Waits until brokers have answered the queued requests. A broker that is slow is not waited for long."""
        ...
