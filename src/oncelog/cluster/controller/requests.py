"""Requests to brokers, from a batch for one change to messages: LeaderAndIsr v7, UpdateMetadata v8, StopReplica v4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar
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
    RegisteredBroker,
    ReplicaAssignment,
    TopicPartition,
)
from oncelog.cluster.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from oncelog.wire import ErrorCode, message_module

TYPE_UNSPECIFIED = 0
"""Type of LeaderAndIsr: a controller over ZooKeeper leaves it unspecified."""


class RequestBatch:
    """Collects the requests for one change, so that each broker gets at most one of a kind (ControllerBrokerRequestBatch).

    LeaderAndIsr is sent first, then UpdateMetadata, then StopReplica. A broker that is not registered gets none: a new broker gets
    the full state.
    """

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
        """Sends LeaderAndIsr to these brokers, and UpdateMetadata to all. A replica that is new in this batch stays new."""
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
        """Adds UpdateMetadata; without partitions it has only the brokers."""
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
            # LeaderAndIsr.duringDelete: brokers remove the partition from their metadata.
            state = LeaderAndIsr.initial(LEADER_DURING_DELETE, state.isr, state.controller_epoch)
        replicas = context.replicas(partition)
        offline = tuple(replica for replica in replicas if not context.is_replica_online(replica, partition))
        return UpdateMetadataPartition(partition, state, replicas, offline)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        ids = self._context.topic_ids
        return {topic: ids[topic] for topic in dict.fromkeys(topic for topic, _ in partitions) if topic in ids}


leader_and_isr = message_module(LEADER_AND_ISR, 7, "request")
update_metadata = message_module(UPDATE_METADATA, 8, "request")
stop_replica = message_module(STOP_REPLICA, 4, "request")


class Message(NamedTuple):
    api_key: int
    version: int
    body: Any


class Messages:
    """Converts requests to messages. The states of an UpdateMetadata are converted once for all brokers."""

    def __init__(self, controller_id: int, inter_broker_listener: str) -> None:
        self._controller_id = controller_id
        self._listener = inter_broker_listener
        self._shared: tuple[object, Any, Any] | None = None

    def message(self, request: BrokerRequest) -> Message:
        match request:
            case LeaderAndIsrRequest():
                return Message(LEADER_AND_ISR, 7, self._leader_and_isr(request))
            case UpdateMetadataRequest():
                return Message(UPDATE_METADATA, 8, self._update_metadata(request))
            case StopReplicaRequest():
                return Message(STOP_REPLICA, 4, self._stop_replica(request))

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> Any:
        return leader_and_isr.LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            type=TYPE_UNSPECIFIED,
            topic_states=tuple(
                leader_and_isr.LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=request.topic_ids.get(topic),
                    partition_states=tuple(map(_leader_and_isr_partition, partitions)),
                )
                for topic, partitions in _by_topic(request.partitions)
            ),
            live_leaders=tuple(map(self._live_leader, request.live_leaders)),
        )

    def _live_leader(self, broker: RegisteredBroker) -> Any:
        reached = address(broker, self._listener)
        assert reached is not None, "a broker without the listener is left out"
        host, port = reached
        return leader_and_isr.LeaderAndIsrLiveLeader(broker_id=broker.broker_id, host_name=host, port=port)

    def _update_metadata(self, request: UpdateMetadataRequest) -> Any:
        # All of one batch have the very same tuple of brokers, and no two batches have.
        if self._shared is None or self._shared[0] is not request.live_brokers:
            live_brokers = tuple(map(_live_broker, request.live_brokers))
            self._shared = (request.live_brokers, _topic_states(request), live_brokers)
        _, topic_states, live_brokers = self._shared
        return update_metadata.UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=topic_states,
            live_brokers=live_brokers,
        )

    def _stop_replica(self, request: StopReplicaRequest) -> Any:
        return stop_replica.StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=tuple(
                stop_replica.StopReplicaTopicState(
                    topic_name=topic,
                    partition_states=tuple(
                        stop_replica.StopReplicaPartitionState(
                            partition_index=one.partition[1],
                            leader_epoch=one.leader_epoch,
                            delete_partition=one.delete,
                        )
                        for one in partitions
                    ),
                )
                for topic, partitions in _by_topic(request.partitions)
            ),
        )


def address(broker: RegisteredBroker, listener: str) -> tuple[str, int] | None:
    """Host and port of a broker's listener, if it has one of this name."""
    found = next((one for one in broker.endpoints if one.listener == listener), None)
    return None if found is None else (found.host, found.port)


def leader_and_isr_errors(answer: Any, names: Mapping[UUID, str]) -> dict[TopicPartition, ErrorCode]:
    """Errors of a LeaderAndIsr response by partition. `names` maps topic ids to names."""
    return {
        (names[topic.topic_id], one.partition_index): one.error_code
        for topic in answer.topics
        if topic.topic_id is not None and topic.topic_id in names
        for one in topic.partition_errors
    }


def stop_replica_errors(answer: Any) -> dict[TopicPartition, ErrorCode]:
    """Errors of a StopReplica response by partition. An error of the whole request counts for each."""
    whole = answer.error_code
    return {
        (one.topic_name, one.partition_index): one.error_code if whole is ErrorCode.none else whole
        for one in answer.partition_errors
    }


def _leader_and_isr_partition(told: LeaderAndIsrPartition) -> Any:
    state, assignment = told.state, told.assignment
    return leader_and_isr.LeaderAndIsrPartitionState(
        partition_index=told.partition[1],
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        is_new=told.is_new,
        leader_recovery_state=state.recovery_state,
    )


def _topic_states(request: UpdateMetadataRequest) -> tuple[Any, ...]:
    return tuple(
        update_metadata.UpdateMetadataTopicState(
            topic_name=topic,
            topic_id=request.topic_ids.get(topic),
            partition_states=tuple(map(_metadata_partition, partitions)),
        )
        for topic, partitions in _by_topic(request.partitions)
    )


def _metadata_partition(told: UpdateMetadataPartition) -> Any:
    state = told.state
    return update_metadata.UpdateMetadataPartitionState(
        partition_index=told.partition[1],
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.partition_epoch,
        replicas=told.replicas,
        offline_replicas=told.offline_replicas,
    )


def _live_broker(broker: RegisteredBroker) -> Any:
    return update_metadata.UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=tuple(
            update_metadata.UpdateMetadataEndpoint(
                port=one.port,
                host=one.host,
                listener=one.listener,
                security_protocol=one.security_protocol,
            )
            for one in broker.endpoints
        ),
        rack=broker.rack,
    )


class _OfPartition(Protocol):
    @property
    def partition(self) -> TopicPartition: ...


T = TypeVar("T", bound=_OfPartition)


def _by_topic(partitions: Iterable[T]) -> Iterable[tuple[str, list[T]]]:
    topics: dict[str, list[T]] = {}
    for one in partitions:
        topics.setdefault(one.partition[0], []).append(one)
    return topics.items()
