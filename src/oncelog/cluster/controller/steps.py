"""How the controller acts without doing anything: what it wants is handed out, and what came of it is handed in.

What the controller does at an event is a generator that reads from top to bottom. It yields an `Ask`, and whoever runs it sends
back the answer; between the two nothing else happens to the controller, for events are served one at a time. Whoever runs it
closes it when the controller is another: after a write that was fenced nothing is asked any more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from oncelog.cluster.controller.requests import BrokerRequest
from oncelog.cluster.controller.values import LeaderAndIsr, ReplicaAssignment, TopicPartition
from oncelog.cluster.zookeeper.session import ZooKeeperError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreatePartitionState:
    """The first state of a partition: its znode, and those above it where they are missing."""

    partition: TopicPartition
    state: LeaderAndIsr


@dataclass(frozen=True, slots=True)
class SetPartitionState:
    """The next state, if the znode still has the version `state.partition_epoch`."""

    partition: TopicPartition
    state: LeaderAndIsr


@dataclass(frozen=True, slots=True)
class SetTopicAssignment:
    topic: str
    topic_id: UUID | None
    partitions: dict[int, ReplicaAssignment]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """The znode of a topic with all below it, then its settings, then the order to delete it."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeleteTopicDeletion:
    """The order to delete a topic, which is not carried out."""

    topic: str


@dataclass(frozen=True, slots=True)
class SetReassignments:
    """What is left of the reassignments of `/admin/reassign_partitions`; with none left the znode goes."""

    targets: dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DeletePreferredElection:
    """The order for preferred elections, which was carried out."""


@dataclass(frozen=True, slots=True)
class DeleteNotification:
    """One of `/isr_change_notification` or `/log_dir_event_notification`, which was heard."""

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
"""Of a write: the version that the znode has now, or why it was not done."""


@dataclass(frozen=True, slots=True)
class Write:
    """Each write by itself, with a check that `/controller_epoch` is still this controller's. Answer: an Outcome for each."""

    writes: tuple[ControllerWrite, ...]


@dataclass(frozen=True, slots=True)
class ReadPartitionStates:
    """Answer: the states of those partitions that have one."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReadUncleanElection:
    """Answer: whether each topic allows unclean elections; a topic whose settings could not be read is not in it."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadReassignments:
    """Answer: what `/admin/reassign_partitions` asks for, or None where there is no such znode."""


@dataclass(frozen=True, slots=True)
class SendRequests:
    """Queue these, each for its broker, behind what was queued before. Answer: none."""

    requests: tuple[BrokerRequest, ...]


@dataclass(frozen=True, slots=True)
class AwaitAnswers:
    """Go on once brokers have answered what is queued. Nobody waits for long for one that does not. Answer: none."""


Ask = Write | ReadPartitionStates | ReadUncleanElection | ReadReassignments | SendRequests | AwaitAnswers
Steps = Generator[Ask, Any, T]


def write_all(writes: Iterable[ControllerWrite]) -> Steps[tuple[Outcome, ...]]:
    """Nothing is asked where there is nothing to write."""
    every = tuple(writes)
    if not every:
        return ()
    outcomes: tuple[Outcome, ...] = yield Write(every)
    return outcomes


def read_states(partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    every = tuple(partitions)
    if not every:
        return {}
    states: dict[TopicPartition, LeaderAndIsr] = yield ReadPartitionStates(every)
    return states


def read_unclean_election(topics: Iterable[str]) -> Steps[dict[str, bool]]:
    every = frozenset(topics)
    if not every:
        return {}
    allowed: dict[str, bool] = yield ReadUncleanElection(every)
    return allowed


def read_reassignments() -> Steps[dict[TopicPartition, tuple[int, ...]] | None]:
    targets: dict[TopicPartition, tuple[int, ...]] | None = yield ReadReassignments()
    return targets


def send_all(requests: tuple[BrokerRequest, ...]) -> Steps[None]:
    if requests:
        yield SendRequests(requests)


def await_answers() -> Steps[None]:
    yield AwaitAnswers()
