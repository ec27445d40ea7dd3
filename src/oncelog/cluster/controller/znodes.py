"""The controller's values as znodes, and its writes as requests to ZooKeeper.

Each write is a multi of its own that begins with a check of `/controller_epoch`: a controller that is none any more writes
nothing, whatever it believes (KafkaZkClient.retryRequestsUntilConnected with expectedControllerEpochZkVersion).
"""

from __future__ import annotations

from oncelog.cluster.controller.steps import (
    ControllerWrite,
    CreatePartitionState,
    DeleteNotification,
    DeletePreferredElection,
    DeleteTopicDeletion,
    Outcome,
    SetPartitionState,
    SetReassignments,
    SetTopicAssignment,
)
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
    Check,
    Create,
    Created,
    Data,
    Delete,
    Done,
    Multi,
    Result,
    Results,
    SetData,
    Write,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import (
    AssignedReplicas,
    PartitionStateZnode,
    TopicZnode,
    decode_broker,
    decode_partition_state,
    decode_topic,
    encode_reassignments,
    paths,
)
from oncelog.cluster.zookeeper.znodes.brokers import SECURITY_PROTOCOLS


def fenced(write: Write, epoch_version: int) -> Multi:
    return Multi((Check(paths.CONTROLLER_EPOCH, epoch_version), write))


def was_fenced(result: Result) -> bool:
    """Whether the write was refused because another controller was elected."""
    return isinstance(result, Results) and result.each[0] in (ZooKeeperError.BAD_VERSION, ZooKeeperError.NO_NODE)


def outcome(result: Result) -> Outcome:
    """What came of a fenced write that was not refused for its fence."""
    assert isinstance(result, Results), f"a multi is not answered with {result}"
    assert not was_fenced(result), "nobody decides anything after that"
    match result.each[1]:
        case ZooKeeperError() as error:
            return error
        case Done(stat) | Created(_, stat):
            return 0 if stat is None else stat.version


def plain_writes(write: ControllerWrite) -> tuple[Write, ...]:
    """What a write is made of, in order; what comes of it is what comes of the last. What is there already may be."""
    match write:
        case CreatePartitionState((topic, number), state):
            return (
                Create(paths.partitions(topic)),
                Create(paths.partition(topic, number)),
                Create(paths.partition_state(topic, number), encode_state(state)),
            )
        case SetPartitionState((topic, number), state):
            return (SetData(paths.partition_state(topic, number), encode_state(state), state.partition_epoch),)
        case SetTopicAssignment(topic, topic_id, partitions):
            return (SetData(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions))),)
        case DeleteTopicDeletion(topic):
            return (Delete(paths.delete_topic(topic)),)
        case SetReassignments(targets):
            if not targets:
                return (Delete(paths.REASSIGN_PARTITIONS),)
            return (SetData(paths.REASSIGN_PARTITIONS, encode_reassignments(targets)),)
        case DeletePreferredElection():
            return (Delete(paths.PREFERRED_REPLICA_ELECTION),)
        case DeleteNotification(path):
            return (Delete(path),)
        case _:
            raise AssertionError(f"{write} is made of what ZooKeeper has")


def topic_deletion(topic: str, tree: list[str]) -> tuple[Write, ...]:
    """`tree` are the znodes of the topic, each behind all that are below it. The order itself goes last: till then it counts."""
    return (
        *map(Delete, tree),
        Delete(paths.config("topics", topic)),
        Delete(paths.delete_topic(topic)),
    )


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
