"""The controller of a cluster, as Kafka 3.9's in ZooKeeper mode: events in, writes to ZooKeeper and requests to brokers out.

What happens is a function of `ControllerContext` and of what was read; it returns `Steps` (see steps.py).
"""

from oncelog.cluster.controller.alter_partition import (
    IsrResult,
    IsrResults,
    WantedIsr,
    alter_partitions,
    broker_epoch_problem,
    change_isrs,
    complete_reassignments,
)
from oncelog.cluster.controller.brokers import (
    answered_leader_and_isr,
    ask_for_failed_directories,
    change_brokers,
    modify_broker,
    shut_down,
)
from oncelog.cluster.controller.context import (
    ControllerContext,
)
from oncelog.cluster.controller.deletion import (
    complete_deletion,
    drop_deletions,
    fail_deletion,
    queue_deletions,
)
from oncelog.cluster.controller.failover import (
    Snapshot,
    begin,
)
from oncelog.cluster.controller.features import (
    feature_znode,
    is_compatible,
)
from oncelog.cluster.controller.leader_elections import (
    ElectionAnswers,
    ElectionType,
    elect_from_znode,
    elect_leaders,
    rebalance,
)
from oncelog.cluster.controller.messages import (
    Message,
    Messages,
    address,
    leader_and_isr_errors,
    stop_replica_errors,
)
from oncelog.cluster.controller.partitions import (
    bring_online,
)
from oncelog.cluster.controller.placement import (
    Placement,
    Racks,
    grow,
    new_topic_problem,
    place,
)
from oncelog.cluster.controller.producer_ids import (
    next_block,
)
from oncelog.cluster.controller.reassignment import (
    Targets,
    listed_reassignments,
    reassign,
    reassign_from_znode,
)
from oncelog.cluster.controller.requests import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
)
from oncelog.cluster.controller.states import (
    PartitionState,
    ReplicaState,
)
from oncelog.cluster.controller.steps import (
    Ask,
    AwaitAnswers,
    ControllerWrite,
    DeleteNotification,
    DeleteTopic,
    Outcome,
    ReadPartitionStates,
    ReadReassignments,
    ReadUncleanElection,
    SendRequests,
    Steps,
    Write,
)
from oncelog.cluster.controller.topic_writes import (
    grown_topic,
    new_topic,
    order_to_delete,
)
from oncelog.cluster.controller.topics import (
    change_partitions_of,
    change_topics,
)
from oncelog.cluster.controller.values import (
    ApiError,
    BrokerEndpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    RegisteredBroker,
    Replica,
    ReplicaAssignment,
    TopicAssignment,
    TopicPartition,
)
from oncelog.cluster.controller.znodes import (
    decode_assignment,
    decode_registration,
    decode_state,
    fenced,
    outcome,
    plain_writes,
    topic_deletion,
    was_fenced,
)

__all__ = [
    "ApiError",
    "Ask",
    "AwaitAnswers",
    "BrokerEndpoint",
    "BrokerRequest",
    "ControllerContext",
    "ControllerWrite",
    "DeleteNotification",
    "DeleteTopic",
    "ElectionAnswers",
    "ElectionType",
    "IsrResult",
    "IsrResults",
    "LeaderAndIsr",
    "LeaderAndIsrRequest",
    "LeaderRecoveryState",
    "Message",
    "Messages",
    "Outcome",
    "PartitionState",
    "Placement",
    "Racks",
    "ReadPartitionStates",
    "ReadReassignments",
    "ReadUncleanElection",
    "RegisteredBroker",
    "Replica",
    "ReplicaAssignment",
    "ReplicaState",
    "SendRequests",
    "Snapshot",
    "Steps",
    "StopReplicaRequest",
    "Targets",
    "TopicAssignment",
    "TopicPartition",
    "WantedIsr",
    "Write",
    "address",
    "alter_partitions",
    "answered_leader_and_isr",
    "ask_for_failed_directories",
    "begin",
    "bring_online",
    "broker_epoch_problem",
    "change_brokers",
    "change_isrs",
    "change_partitions_of",
    "change_topics",
    "complete_deletion",
    "complete_reassignments",
    "decode_assignment",
    "decode_registration",
    "decode_state",
    "drop_deletions",
    "elect_from_znode",
    "elect_leaders",
    "fail_deletion",
    "feature_znode",
    "fenced",
    "grow",
    "grown_topic",
    "is_compatible",
    "leader_and_isr_errors",
    "listed_reassignments",
    "modify_broker",
    "new_topic",
    "new_topic_problem",
    "next_block",
    "order_to_delete",
    "outcome",
    "place",
    "plain_writes",
    "queue_deletions",
    "reassign",
    "reassign_from_znode",
    "rebalance",
    "shut_down",
    "stop_replica_errors",
    "topic_deletion",
    "was_fenced",
]
