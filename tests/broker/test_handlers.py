"""Each handler names what it needs of the broker, and the broker has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.broker import BrokerCore
from oncelog.broker.apis import APIS
from oncelog.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
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
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from oncelog.broker.request import Request

HANDLERS: tuple[Callable[[BrokerCore, Request], Any], ...] = (
    add_offsets_to_txn.handle,
    add_partitions_to_txn.handle,
    alter_configs.handle,
    alter_partition_reassignments.handle,
    alter_replica_log_dirs.handle,
    api_versions.handle,
    consumer_group_describe.handle,
    consumer_group_heartbeat.handle,
    create_partitions.handle,
    create_topics.handle,
    delete_groups.handle,
    delete_records.handle,
    delete_topics.handle,
    describe_cluster.handle,
    describe_configs.handle,
    describe_groups.handle,
    describe_log_dirs.handle,
    describe_producers.handle,
    describe_topic_partitions.handle,
    describe_transactions.handle,
    elect_leaders.handle,
    end_txn.handle,
    fetch.handle,
    find_coordinator.handle,
    heartbeat.handle,
    incremental_alter_configs.handle,
    init_producer_id.handle,
    join_group.handle,
    leave_group.handle,
    list_config_resources.handle,
    list_groups.handle,
    list_offsets.handle,
    list_partition_reassignments.handle,
    list_transactions.handle,
    metadata.handle,
    offset_commit.handle,
    offset_delete.handle,
    offset_fetch.handle,
    offset_for_leader_epoch.handle,
    produce.handle,
    sasl_authenticate.handle,
    sasl_handshake.handle,
    sync_group.handle,
    txn_offset_commit.handle,
    update_features.handle,
    write_txn_markers.handle,
)
"""That a broker has what each of them needs is checked with the types: they are found by name while a broker runs."""


def test_every_handler_of_the_table_is_checked() -> None:
    assert {handler.__module__ for handler in HANDLERS} == {
        f"oncelog.broker.handlers.{api.module}" for api in APIS.values()
    }
