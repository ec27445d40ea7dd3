"""What the controller tells brokers, as values: LeaderAndIsr, UpdateMetadata and StopReplica, one for each broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from oncelog.cluster.controller.values import LeaderAndIsr, RegisteredBroker, ReplicaAssignment, TopicPartition


class LeaderAndIsrPartition(NamedTuple):
    partition: TopicPartition
    state: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool
    """The replica may be made in any log directory. Of one that is not new, an offline directory may have it."""


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
    """To one broker: what it leads and follows, and where those are that it follows."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[LeaderAndIsrPartition, ...]
    topic_ids: dict[str, UUID]
    live_leaders: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """To one broker: what it tells clients. `partitions` are those that changed, `live_brokers` all that there are."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    topic_ids: dict[str, UUID]
    live_brokers: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """To one broker: what it follows no more, and which of it to delete."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


BrokerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
