"""The controller's requests as messages, and what brokers answer as values: LeaderAndIsr v7, UpdateMetadata v8, StopReplica v4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from oncelog.cluster.controller.actions import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from oncelog.cluster.controller.values import RegisteredBroker, TopicPartition
from oncelog.cluster.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from oncelog.wire import ErrorCode, message_module

leader_and_isr = message_module(LEADER_AND_ISR, 7, "request")
update_metadata = message_module(UPDATE_METADATA, 8, "request")
stop_replica = message_module(STOP_REPLICA, 4, "request")
NOTHING_SAID = 0
"""A controller over ZooKeeper does not say whether LeaderAndIsr and UpdateMetadata have all partitions."""


class Message(NamedTuple):
    api_key: int
    version: int
    body: Any


class Messages:
    """Makes messages of requests. What goes to all brokers is made once: they differ in the epoch of the broker alone."""

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
            type=NOTHING_SAID,
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
    """Where brokers reach it, if it has this listener."""
    found = next((one for one in broker.endpoints if one.listener == listener), None)
    return None if found is None else (found.host, found.port)


def leader_and_isr_errors(answer: Any, names: Mapping[UUID, str]) -> dict[TopicPartition, ErrorCode]:
    """What a broker says of each partition. `names` are those of the topics by their ids."""
    return {
        (names[topic.topic_id], one.partition_index): one.error_code
        for topic in answer.topics
        if topic.topic_id is not None and topic.topic_id in names
        for one in topic.partition_errors
    }


def stop_replica_errors(answer: Any) -> dict[TopicPartition, ErrorCode]:
    """What a broker says of each partition. An error of the whole request is one of each of them."""
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
