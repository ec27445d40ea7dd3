"""Requests that ask for tens of thousands of things: each is answered, and keeps nobody else waiting."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from kio.schema.errors import ErrorCode

from harness.waiting import until
from harness.watched_node import WatchedNode
from harness.wire import Connection, frame, parse
from oncelog.wire.lengths import ITEMS_MAX
from tests.broker.test_event_loop import create, nobody_is_blocked

pytestmark = pytest.mark.drawn(6)

COUNT = 20_000
PARTITIONS = 100
NAMES = [f"n{number}" for number in range(COUNT)]
INDEXES = list(range(COUNT))
MINUTE = timedelta(minutes=1)


def metadata(**fields: Any) -> dict[str, Any]:
    flags = (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    return {"topics": [{"name": name} for name in NAMES]} | dict.fromkeys(flags, False) | fields


LARGE: list[tuple[str, int, dict[str, Any]]] = [
    ("metadata", 9, metadata()),
    ("metadata", 9, metadata(topics=[{"name": "t"}] * COUNT)),
    ("describe_groups", 5, {"groups": NAMES, "include_authorized_operations": True}),
    ("consumer_group_describe", 0, {"group_ids": NAMES, "include_authorized_operations": True}),
    ("delete_groups", 2, {"groups_names": NAMES}),
    ("describe_transactions", 0, {"transactional_ids": NAMES}),
    ("find_coordinator", 4, {"key_type": 0, "coordinator_keys": NAMES}),
    (
        "list_offsets",
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": index % PARTITIONS, "current_leader_epoch": -1, "timestamp": -1}
                        for index in INDEXES
                    ],
                }
            ],
        },
    ),
    (
        "offset_fetch",
        8,
        {
            "groups": [{"group_id": "g", "topics": [{"name": n, "partition_indexes": [0]} for n in NAMES]}],
            "require_stable": True,
        },
    ),
    ("offset_fetch", 8, {"groups": [{"group_id": n, "topics": None} for n in NAMES], "require_stable": True}),
    (
        "offset_for_leader_epoch",
        4,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in INDEXES
                    ],
                }
            ],
        },
    ),
    ("describe_producers", 0, {"topics": [{"name": "t", "partition_indexes": INDEXES}]}),
    (
        "describe_configs",
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]} for name in NAMES
            ],
            "include_synonyms": True,
            "include_documentation": True,
        },
    ),
    (
        "alter_partition_reassignments",
        0,
        {
            "timeout": MINUTE,
            "topics": [{"name": "t", "partitions": [{"partition_index": i, "replicas": [1]} for i in INDEXES]}],
        },
    ),
    (
        "elect_leaders",
        2,
        {"election_type": 0, "timeout": MINUTE, "topic_partitions": [{"topic": "t", "partitions": INDEXES}]},
    ),
    ("delete_topics", 5, {"topic_names": NAMES, "timeout": MINUTE}),
    (
        "delete_records",
        2,
        {
            "timeout": MINUTE,
            "topics": [{"name": "t", "partitions": [{"partition_index": i, "offset": 0} for i in INDEXES]}],
        },
    ),
    (
        "create_topics",
        7,
        {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
                for name in NAMES
            ],
            "timeout": MINUTE,
            "validate_only": True,
        },
    ),
    (
        "create_partitions",
        3,
        {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in NAMES],
            "timeout": MINUTE,
            "validate_only": False,
        },
    ),
    (
        "incremental_alter_configs",
        1,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": name,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
                }
                for name in NAMES[: COUNT // 2]
            ],
            "validate_only": False,
        },
    ),
    (
        "add_partitions_to_txn",
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "t", "partitions": INDEXES}],
        },
    ),
    (
        "offset_commit",
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": index % PARTITIONS,
                            "committed_offset": 1,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                        for index in INDEXES
                    ],
                }
            ],
        },
    ),
    (
        "add_partitions_to_txn",
        4,
        {
            "transactions": [
                {
                    "transactional_id": name,
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": False,
                    "topics": [{"name": "t", "partitions": [0]}],
                }
                for name in NAMES
            ]
        },
    ),
    (
        "offset_delete",
        0,
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": i} for i in INDEXES]}]},
    ),
    (
        "leave_group",
        4,
        {"group_id": "g", "members": [{"member_id": name, "group_instance_id": None} for name in NAMES[:10_000]]},
    ),
    ("describe_log_dirs", 4, {"topics": [{"topic": "t", "partitions": [index % PARTITIONS for index in INDEXES]}]}),
    ("list_groups", 4, {"states_filter": NAMES}),
    (
        "txn_offset_commit",
        3,
        {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 1,
            "producer_epoch": 0,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": i,
                            "committed_offset": 1,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                        for i in INDEXES
                    ],
                }
            ],
        },
    ),
    (
        "alter_configs",
        2,
        {
            "resources": [
                {"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms", "value": "1"}]}
                for name in NAMES[:10000]
            ],
            "validate_only": False,
        },
    ),
    (
        "join_group",
        5,
        {
            "group_id": "g2",
            "session_timeout": timedelta(seconds=10),
            "rebalance_timeout": timedelta(seconds=1),
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": b"x"} for name in NAMES],
        },
    ),
    (
        "sync_group",
        5,
        {
            "group_id": "g",
            "generation_id": 1,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "c",
            "protocol_name": "r",
            "assignments": [{"member_id": n, "assignment": b"x"} for n in NAMES],
        },
    ),
    (
        "consumer_group_heartbeat",
        1,
        {
            "group_id": "g3",
            "member_id": "m",
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": timedelta(seconds=5),
            "subscribed_topic_names": NAMES,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        },
    ),
    (
        "write_txn_markers",
        1,
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": [{"name": "t", "partition_indexes": INDEXES}],
                }
            ]
        },
    ),
    (
        "fetch",
        12,
        {
            "max_wait": timedelta(0),
            "min_bytes": 1,
            "max_bytes": 2**20,
            "isolation_level": 1,
            "session_id": 0,
            "session_epoch": -1,
            "replica_id": -1,
            "forgotten_topics_data": [],
            "rack_id": "",
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {
                            "partition": i,
                            "current_leader_epoch": -1,
                            "fetch_offset": 0,
                            "last_fetched_epoch": -1,
                            "log_start_offset": -1,
                            "partition_max_bytes": 2**20,
                        }
                        for i in INDEXES
                    ],
                }
            ],
        },
    ),
    (
        "produce",
        9,
        {
            "transactional_id": None,
            "acks": -1,
            "timeout": timedelta(seconds=5),
            "topic_data": [{"name": "t", "partition_data": [{"index": i, "records": None} for i in INDEXES]}],
        },
    ),
    ("list_transactions", 1, {"state_filters": NAMES, "producer_id_filters": INDEXES, "duration_filter": 0}),
    (
        "describe_topic_partitions",
        0,
        {"topics": [{"name": n} for n in NAMES], "response_partition_limit": 2000, "cursor": None},
    ),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    node = WatchedNode(tmp_path_factory.mktemp("watched"))
    node.start()
    create(node, NewTopic("t", PARTITIONS, 1))
    connection = Connection(node.bootstrap_servers)
    until(
        lambda: not connection.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"]).coordinators[0].error_code
    )
    connection.close()
    yield node
    node.kill()
    assert "Traceback" not in node.tail()


@pytest.mark.parametrize(
    ("api", "version", "fields"), LARGE, ids=[f"{api}-{number}" for number, (api, _, _) in enumerate(LARGE)]
)
def test_request_for_many_things_blocks_nobody(node, api, version, fields):
    request = frame(api, version, fields)
    connection = Connection(node.bootstrap_servers)

    def ask(_: int) -> None:
        connection.socket.sendall(request)
        parse(api, version, connection.receive_frame())

    nobody_is_blocked(node, ask)
    connection.close()


def test_request_for_more_things_than_one_may_ask_for_closes_its_connection(node):
    greedy, other = Connection(node.bootstrap_servers), Connection(node.bootstrap_servers)
    names = b"\0\1x" * ITEMS_MAX
    allowed = frame("metadata", 4, {"topics": [], "allow_auto_topic_creation": False})
    head = allowed[4:-5]
    for count in (ITEMS_MAX, ITEMS_MAX + 1):
        body = head + struct.pack(">i", count) + names + b"\0\1x" * (count - ITEMS_MAX) + b"\0"
        greedy.socket.sendall(struct.pack(">i", len(body)) + body)
        if count == ITEMS_MAX:
            assert [topic.name for topic in parse("metadata", 4, greedy.receive_frame()).topics] == ["x"]
    with pytest.raises(ConnectionError):
        greedy.receive_frame()
    assert other.ask("api_versions", 0).error_code is ErrorCode.none
    other.close()
