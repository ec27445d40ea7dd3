"""The one table of APIs: what is dispatched, what ApiVersions answers and what the documentation lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

from oncelog.broker.readiness import Readiness
from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

Handler = Callable[..., Any]
"""Takes the request, and the broker's parts of the names of its other parameters.

It returns the answer, or a coroutine that does; None if the request has no answer.
"""


class ClusterAction(Enum):
    """The requests of an API that only brokers may send. Kafka's authorizer asks for the right of this name on the cluster."""

    NONE = ""
    ALL = "all"
    FOLLOWERS = "with a replica id"
    BATCHED = "from version 4 on"
    UNLESS_ADMINISTRATOR = "all but an administrator's"


class ServedApi(NamedTuple):
    """One API and the versions of it that are served, both ends included."""

    key: int
    name: str
    minimum: int
    maximum: int
    module: str
    """The one of `package` that serves it."""
    needs: Readiness = Readiness.COORDINATORS
    """A request that comes before this waits for it."""
    cluster_action: ClusterAction = ClusterAction.NONE
    """For ALL it is checked before the handler, whose module has `refusal`; otherwise by the handler."""
    package: str = "oncelog.broker.handlers"

    @property
    def handle(self) -> Handler:
        """Imported with the first such request: there are many, and a start waits for none of them."""
        handler: Handler = import_module(f"{self.package}.{self.module}").handle
        return handler

    def bind(self, parts: Sequence[object]) -> Callable[[Request], Any]:
        """The handler with the parts that it takes. They are there once the broker is as ready as the API needs it."""
        handle = self.handle
        _, *names = signature(handle).parameters
        taken = [_part(parts, name) for name in names]
        return lambda request: handle(request, *taken)

    def refusal(self, request: Request, error: ErrorCode) -> Any:
        """The answer that says nothing but this."""
        return import_module(f"{self.package}.{self.module}").refusal(request, error)


def _part(parts: Sequence[object], name: str) -> object:
    return getattr(next(some for some in parts if hasattr(some, name)), name)


_TABLE = (
    ServedApi(0, "Produce", 3, 13, "produce", Readiness.METADATA),
    ServedApi(1, "Fetch", 4, 18, "fetch", Readiness.METADATA, ClusterAction.FOLLOWERS),
    ServedApi(2, "ListOffsets", 1, 11, "list_offsets", Readiness.METADATA),
    ServedApi(3, "Metadata", 0, 13, "metadata", Readiness.METADATA),
    ServedApi(8, "OffsetCommit", 2, 10, "offset_commit"),
    ServedApi(9, "OffsetFetch", 1, 10, "offset_fetch"),
    ServedApi(10, "FindCoordinator", 0, 6, "find_coordinator"),
    ServedApi(11, "JoinGroup", 0, 9, "join_group"),
    ServedApi(12, "Heartbeat", 0, 4, "heartbeat"),
    ServedApi(13, "LeaveGroup", 0, 5, "leave_group"),
    ServedApi(14, "SyncGroup", 0, 5, "sync_group"),
    ServedApi(15, "DescribeGroups", 0, 6, "describe_groups"),
    ServedApi(16, "ListGroups", 0, 5, "list_groups"),
    ServedApi(17, "SaslHandshake", 0, 1, "sasl_handshake", Readiness.IDENTITY),
    ServedApi(18, "ApiVersions", 0, 4, "api_versions", Readiness.IDENTITY),
    ServedApi(19, "CreateTopics", 2, 7, "create_topics"),
    ServedApi(20, "DeleteTopics", 1, 6, "delete_topics"),
    ServedApi(21, "DeleteRecords", 0, 2, "delete_records"),
    ServedApi(22, "InitProducerId", 0, 5, "init_producer_id"),
    ServedApi(23, "OffsetForLeaderEpoch", 2, 4, "offset_for_leader_epoch", Readiness.METADATA),
    ServedApi(24, "AddPartitionsToTxn", 0, 5, "add_partitions_to_txn", cluster_action=ClusterAction.BATCHED),
    ServedApi(25, "AddOffsetsToTxn", 0, 4, "add_offsets_to_txn"),
    ServedApi(26, "EndTxn", 0, 5, "end_txn"),
    ServedApi(27, "WriteTxnMarkers", 1, 2, "write_txn_markers", cluster_action=ClusterAction.UNLESS_ADMINISTRATOR),
    ServedApi(28, "TxnOffsetCommit", 0, 5, "txn_offset_commit"),
    ServedApi(29, "DescribeAcls", 1, 3, "describe_acls", Readiness.IDENTITY),
    ServedApi(30, "CreateAcls", 1, 3, "create_acls", Readiness.IDENTITY),
    ServedApi(31, "DeleteAcls", 1, 3, "delete_acls", Readiness.IDENTITY),
    ServedApi(32, "DescribeConfigs", 1, 4, "describe_configs"),
    ServedApi(33, "AlterConfigs", 0, 2, "alter_configs"),
    ServedApi(34, "AlterReplicaLogDirs", 1, 2, "alter_replica_log_dirs"),
    ServedApi(35, "DescribeLogDirs", 1, 5, "describe_log_dirs"),
    ServedApi(36, "SaslAuthenticate", 0, 2, "sasl_authenticate", Readiness.IDENTITY),
    ServedApi(37, "CreatePartitions", 0, 3, "create_partitions"),
    ServedApi(42, "DeleteGroups", 0, 2, "delete_groups"),
    ServedApi(43, "ElectLeaders", 0, 2, "elect_leaders"),
    ServedApi(44, "IncrementalAlterConfigs", 0, 1, "incremental_alter_configs"),
    ServedApi(45, "AlterPartitionReassignments", 0, 1, "alter_partition_reassignments"),
    ServedApi(46, "ListPartitionReassignments", 0, 0, "list_partition_reassignments"),
    ServedApi(47, "OffsetDelete", 0, 0, "offset_delete"),
    ServedApi(57, "UpdateFeatures", 0, 2, "update_features"),
    ServedApi(60, "DescribeCluster", 0, 2, "describe_cluster", Readiness.METADATA),
    ServedApi(61, "DescribeProducers", 0, 0, "describe_producers"),
    ServedApi(65, "DescribeTransactions", 0, 0, "describe_transactions"),
    ServedApi(66, "ListTransactions", 0, 2, "list_transactions"),
    ServedApi(68, "ConsumerGroupHeartbeat", 0, 1, "consumer_group_heartbeat"),
    ServedApi(69, "ConsumerGroupDescribe", 0, 1, "consumer_group_describe"),
    ServedApi(74, "ListConfigResources", 0, 1, "list_config_resources"),
    ServedApi(75, "DescribeTopicPartitions", 0, 0, "describe_topic_partitions", Readiness.METADATA),
)

APIS: Mapping[int, ServedApi] = MappingProxyType({api.key: api for api in _TABLE})
"""The APIs of a broker that is alone."""
