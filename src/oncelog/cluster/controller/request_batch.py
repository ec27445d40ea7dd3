"""Collects what brokers are to be told about one change, so that each gets at most one request of a kind.

As Kafka's ControllerBrokerRequestBatch: LeaderAndIsr is sent first, then UpdateMetadata, then StopReplica. A broker that is not
registered gets nothing; whoever registers is told everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from oncelog.cluster.controller.actions import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.values import (
    LEADER_DURING_DELETE,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)


class RequestBatch:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}
        self._told: set[int] = set()
        self._changed: dict[TopicPartition, None] = {}

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        state: LeaderAndIsr,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Tell these brokers, and everybody of the metadata. A replica that was new in this batch stays so."""
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            before = partitions.get(partition)
            was_new = before is not None and before.is_new
            partitions[partition] = LeaderAndIsrPartition(partition, state, assignment, is_new or was_new)
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_stop_replica(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        if broker_id < 0:
            return
        partitions = self._stop_replica.setdefault(broker_id, {})
        before = partitions.get(partition)
        was_deleted = before is not None and before.delete
        epoch = self._context.leader_epoch(partition)
        partitions[partition] = StopReplicaPartition(partition, epoch, delete or was_deleted)

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Without partitions brokers hear of each other alone."""
        self._told.update(broker_ids)
        self._changed.update(dict.fromkeys(partitions))

    def send(self) -> None:
        self._context.actions.send(
            (*self._leader_and_isr_requests(), *self._update_metadata_requests(), *self._stop_replica_requests())
        )

    def _leader_and_isr_requests(self) -> Iterable[BrokerRequest]:
        context = self._context
        for broker_id, partitions in sorted(self._leader_and_isr.items()):
            broker = context.brokers.get(broker_id)
            if broker is None:
                continue
            leaders = {told.state.leader for told in partitions.values()}
            yield LeaderAndIsrRequest(
                broker_id,
                broker.epoch,
                context.controller_epoch,
                tuple(partitions.values()),
                self._topic_ids(partitions),
                tuple(context.brokers[leader] for leader in sorted(leaders) if leader in context.brokers),
            )

    def _update_metadata_requests(self) -> Iterable[BrokerRequest]:
        context = self._context
        told = sorted(self._told & context.brokers.keys())
        if not told:
            return
        partitions = tuple(self._metadata(partition) for partition in self._changed if partition in context.leaders)
        topic_ids = self._topic_ids(changed.partition for changed in partitions)
        live = tuple(broker for _, broker in sorted(context.brokers.items()))
        for broker_id in told:
            epoch = context.brokers[broker_id].epoch
            yield UpdateMetadataRequest(broker_id, epoch, context.controller_epoch, partitions, topic_ids, live)

    def _stop_replica_requests(self) -> Iterable[BrokerRequest]:
        context = self._context
        for broker_id, partitions in sorted(self._stop_replica.items()):
            broker = context.brokers.get(broker_id)
            if broker is not None:
                stopped = tuple(partitions.values())
                yield StopReplicaRequest(broker_id, broker.epoch, context.controller_epoch, stopped)

    def _metadata(self, partition: TopicPartition) -> UpdateMetadataPartition:
        context = self._context
        state = context.leaders[partition]
        if partition[0] in context.to_be_deleted:
            # LeaderAndIsr.duringDelete: brokers take the partition out of what they tell clients.
            state = LeaderAndIsr.initial(LEADER_DURING_DELETE, state.isr, state.controller_epoch)
        replicas = context.replicas(partition)
        offline = tuple(replica for replica in replicas if not context.is_replica_online(replica, partition))
        return UpdateMetadataPartition(partition, state, replicas, offline)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        ids = self._context.topic_ids
        return {topic: ids[topic] for topic in dict.fromkeys(topic for topic, _ in partitions) if topic in ids}
