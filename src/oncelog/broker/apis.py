"""The one table of APIs: what is dispatched, what ApiVersions answers and what the documentation lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from oncelog.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from oncelog.broker.request import Reply, Request

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class Api:
    """One API and the versions of it that are served, both ends included."""

    key: int
    name: str
    minimum: int
    maximum: int
    handle: Callable[[Broker, Request], Reply]


_TABLE = (
    Api(0, "Produce", 3, 13, produce.handle),
    Api(1, "Fetch", 4, 18, fetch.handle),
    Api(2, "ListOffsets", 1, 11, list_offsets.handle),
    Api(3, "Metadata", 0, 13, metadata.handle),
    Api(8, "OffsetCommit", 2, 10, offset_commit.handle),
    Api(9, "OffsetFetch", 1, 10, offset_fetch.handle),
    Api(10, "FindCoordinator", 0, 6, find_coordinator.handle),
    Api(11, "JoinGroup", 0, 9, join_group.handle),
    Api(12, "Heartbeat", 0, 4, heartbeat.handle),
    Api(13, "LeaveGroup", 0, 5, leave_group.handle),
    Api(14, "SyncGroup", 0, 5, sync_group.handle),
    Api(15, "DescribeGroups", 0, 6, describe_groups.handle),
    Api(16, "ListGroups", 0, 5, list_groups.handle),
    Api(18, "ApiVersions", 0, 4, api_versions.handle),
    Api(19, "CreateTopics", 2, 7, create_topics.handle),
    Api(20, "DeleteTopics", 1, 6, delete_topics.handle),
    Api(21, "DeleteRecords", 0, 2, delete_records.handle),
    Api(22, "InitProducerId", 0, 5, init_producer_id.handle),
    Api(23, "OffsetForLeaderEpoch", 2, 4, offset_for_leader_epoch.handle),
    Api(24, "AddPartitionsToTxn", 0, 5, add_partitions_to_txn.handle),
    Api(25, "AddOffsetsToTxn", 0, 4, add_offsets_to_txn.handle),
    Api(26, "EndTxn", 0, 5, end_txn.handle),
    Api(27, "WriteTxnMarkers", 1, 2, write_txn_markers.handle),
    Api(28, "TxnOffsetCommit", 0, 5, txn_offset_commit.handle),
    Api(32, "DescribeConfigs", 1, 4, describe_configs.handle),
    Api(33, "AlterConfigs", 0, 2, alter_configs.handle),
    Api(35, "DescribeLogDirs", 1, 5, describe_log_dirs.handle),
    Api(37, "CreatePartitions", 0, 3, create_partitions.handle),
    Api(42, "DeleteGroups", 0, 2, delete_groups.handle),
    Api(43, "ElectLeaders", 0, 2, elect_leaders.handle),
    Api(44, "IncrementalAlterConfigs", 0, 1, incremental_alter_configs.handle),
    Api(45, "AlterPartitionReassignments", 0, 1, alter_partition_reassignments.handle),
    Api(46, "ListPartitionReassignments", 0, 0, list_partition_reassignments.handle),
    Api(47, "OffsetDelete", 0, 0, offset_delete.handle),
    Api(57, "UpdateFeatures", 0, 2, update_features.handle),
    Api(60, "DescribeCluster", 0, 2, describe_cluster.handle),
    Api(61, "DescribeProducers", 0, 0, describe_producers.handle),
    Api(65, "DescribeTransactions", 0, 0, describe_transactions.handle),
    Api(66, "ListTransactions", 0, 2, list_transactions.handle),
    Api(74, "ListConfigResources", 0, 1, list_config_resources.handle),
    Api(75, "DescribeTopicPartitions", 0, 0, describe_topic_partitions.handle),
)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _TABLE})
