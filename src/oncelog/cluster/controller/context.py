"""The active controller's copy of the cluster's state in ZooKeeper, and the work that is left to do.

It is loaded when a broker becomes the controller. Only the controller's flows change it, each time after the write to ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from uuid import UUID

from oncelog.cluster.controller.actions import ControllerActions
from oncelog.cluster.controller.values import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    NOT_ASSIGNED,
    LeaderAndIsr,
    PartitionState,
    RegisteredBroker,
    Replica,
    ReplicaAssignment,
    ReplicaState,
    TopicPartition,
)


class ControllerContext:
    """`controller_epoch` is the value that this controller raised `/controller_epoch` to; it acts by `actions`."""

    def __init__(self, controller_id: int, controller_epoch: int, actions: ControllerActions) -> None:
        self.actions = actions
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.brokers: dict[int, RegisteredBroker] = {}
        """Registered brokers, including brokers that shut down."""
        self.shutting_down: set[int] = set()
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        """The replicas of each broker that are in a log directory which failed."""
        self.topic_ids: dict[str, UUID] = {}
        self.topic_names: dict[UUID, str] = {}
        self.topics: set[str] = set()
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leaders: dict[TopicPartition, LeaderAndIsr] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.being_reassigned: set[TopicPartition] = set()
        self.to_be_deleted: set[str] = set()
        self.deletion_started: set[str] = set()
        self.ineligible_for_deletion: set[str] = set()
        self.unclean_elections = 0
        """The number of unclean elections of this controller."""

    # Brokers

    @property
    def live_broker_ids(self) -> set[int]:
        """Brokers that may lead: a broker that shuts down may not."""
        return self.brokers.keys() - self.shutting_down

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        is_live = broker_id in self.brokers if include_shutting_down else self.is_live(broker_id)
        return is_live and partition not in self.offline_directories.get(broker_id, ())

    def online_at(self, partition: TopicPartition, *, include_shutting_down: bool = False) -> Callable[[int], bool]:
        """Says of a broker whether its replica of this partition is online."""
        return lambda broker_id: self.is_replica_online(
            broker_id, partition, include_shutting_down=include_shutting_down
        )

    # Topics

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        return self.assignments.get(partition[0], {}).get(partition[1], NOT_ASSIGNED)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition[0], {})[partition[1]] = assignment

    def name_topic(self, topic: str, topic_id: UUID) -> None:
        assert self.topic_ids.get(topic, topic_id) == topic_id, f"{topic} has two ids"
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def forget_topic(self, topic: str) -> None:
        self.to_be_deleted.discard(topic)
        self.deletion_started.discard(topic)
        self.ineligible_for_deletion.discard(topic)
        self.topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for replica in self.replicas_of_topic(topic):
            self.replica_states.pop(replica, None)
        for number in self.assignments.pop(topic, ()):
            self.leaders.pop((topic, number), None)
            self.partition_states.pop((topic, number), None)
            self.being_reassigned.discard((topic, number))

    def partitions(self) -> Iterator[TopicPartition]:
        for topic, numbers in self.assignments.items():
            for number in numbers:
                yield topic, number

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [(topic, number) for number in self.assignments.get(topic, ())]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        return [partition for partition in self.partitions() if broker_id in self.replicas(partition)]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(partition, broker) for partition in partitions for broker in self.replicas(partition)]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return self.replicas_of(self.partitions_of(topic))

    def replicas_on(self, broker_ids: Collection[int]) -> list[Replica]:
        return [replica for replica in self.replicas_of(self.partitions()) if replica.broker_id in broker_ids]

    # Leaders

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch for StopReplica: -2 for a topic that is deleted, which is newer than every epoch (KIP-570)."""
        if partition[0] in self.to_be_deleted:
            return EPOCH_DURING_DELETE
        led = self.leaders.get(partition)
        return NO_EPOCH if led is None else led.leader_epoch

    def with_leaders(self) -> list[TopicPartition]:
        return [partition for partition in self.leaders if partition[0] not in self.to_be_deleted]

    def with_offline_leader(self) -> list[TopicPartition]:
        return [
            partition
            for partition, led in self.leaders.items()
            if partition[0] not in self.to_be_deleted and not self.is_replica_online(led.leader, partition)
        ]

    def led_by(self, broker_id: int) -> list[TopicPartition]:
        """Partitions of this leader that another replica could lead; a single replica leads until it is gone."""
        return [
            partition
            for partition, led in self.leaders.items()
            if led.leader == broker_id and partition[0] not in self.to_be_deleted and len(self.replicas(partition)) > 1
        ]

    # What Kafka's metrics of a KafkaController count

    @property
    def offline_partition_count(self) -> int:
        """Partitions without a leader, except those of topics to be deleted."""
        return sum(
            state is PartitionState.OFFLINE and topic not in self.to_be_deleted
            for (topic, _), state in self.partition_states.items()
        )

    @property
    def preferred_replica_imbalance_count(self) -> int:
        """Partitions whose leader is not their preferred replica, except those of topics to be deleted."""
        return sum(
            self.leaders[partition].leader != replicas[0]
            for partition in self.with_leaders()
            if (replicas := self.replicas(partition))
        )

    # States

    def partitions_in(
        self, states: Collection[PartitionState], among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        if among is None:
            among = self.partition_states
        return [partition for partition in among if self.partition_states.get(partition) in states]

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [replica for replica in self.replicas_of_topic(topic) if self.replica_states.get(replica) is state]
