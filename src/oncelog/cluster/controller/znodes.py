"""The controller's values as znodes, and the writes by which a broker creates, grows and deletes topics.

The controller learns of those by its watches, as of those of Kafka's AdminZkClient. The settings of a new topic are written before
the topic, so that no controller finds it without them.
"""

from __future__ import annotations

from uuid import UUID

from oncelog.cluster.controller.placement import Placement
from oncelog.cluster.controller.values import (
    BrokerEndpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    RegisteredBroker,
    ReplicaAssignment,
    TopicAssignment,
    TopicPartition,
)
from oncelog.cluster.zookeeper.session import (
    Create,
    Data,
    SetData,
)
from oncelog.cluster.zookeeper.znodes import (
    AssignedReplicas,
    PartitionStateZnode,
    TopicZnode,
    decode_broker,
    decode_partition_state,
    decode_topic,
    paths,
)
from oncelog.cluster.zookeeper.znodes.cluster import SECURITY_PROTOCOLS


def encode_state(state: LeaderAndIsr) -> bytes:
    is_recovering = state.recovery_state is LeaderRecoveryState.RECOVERING
    return PartitionStateZnode(
        state.controller_epoch, state.leader, state.leader_epoch, state.isr, is_recovering
    ).encode()


def decode_state(partition: TopicPartition, read: Data) -> LeaderAndIsr:
    """Raises ZnodeError."""
    znode = decode_partition_state(*partition, read.data)
    recovery = LeaderRecoveryState.RECOVERING if znode.is_recovering else LeaderRecoveryState.RECOVERED
    version = read.stat.version
    return LeaderAndIsr(znode.leader, znode.leader_epoch, znode.isr, recovery, version, znode.controller_epoch)


def encode_topic(assignment: TopicAssignment) -> bytes:
    partitions = {
        number: AssignedReplicas(one.replicas, one.adding, one.removing)
        for number, one in assignment.partitions.items()
    }
    return TopicZnode(assignment.topic_id, partitions).encode()


def decode_assignment(topic: str, read: Data) -> TopicAssignment:
    """Raises ZnodeError."""
    znode = decode_topic(topic, read.data)
    partitions = {
        number: ReplicaAssignment(one.replicas, one.adding, one.removing) for number, one in znode.partitions.items()
    }
    return TopicAssignment(znode.topic_id, partitions)


def decode_registration(broker_id: int, read: Data) -> RegisteredBroker:
    """Raises ZnodeError."""
    znode = decode_broker(broker_id, read.data)
    endpoints = tuple(
        BrokerEndpoint(one.listener, one.host, one.port, SECURITY_PROTOCOLS.index(one.security_protocol))
        for one in znode.endpoints
    )
    features = tuple((name, low, high) for name, (low, high) in sorted(znode.features.items()))
    return RegisteredBroker(broker_id, read.stat.czxid, endpoints, znode.rack, features)


def new_topic(topic: str, topic_id: UUID, placement: Placement) -> Create:
    """Creates a topic's znode. NODE_EXISTS means TOPIC_ALREADY_EXISTS."""
    partitions = {number: ReplicaAssignment(replicas) for number, replicas in placement.items()}
    return Create(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions)))


def grown_topic(topic: str, existing: TopicAssignment, version: int, placement: Placement) -> SetData:
    """Adds partitions, if the znode still has the version of `existing`: so a concurrent reassignment is not undone.

    Kafka ignores the version. After BAD_VERSION, read and place again.
    """
    added = {number: ReplicaAssignment(replicas) for number, replicas in placement.items()}
    grown = TopicAssignment(existing.topic_id, existing.partitions | added)
    return SetData(paths.topic(topic), encode_topic(grown), version)


def order_to_delete(topic: str) -> Create:
    """Orders a deletion. NODE_EXISTS means that it is ordered already."""
    return Create(paths.delete_topic(topic))
