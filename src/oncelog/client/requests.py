"""Requests as plain fields, and the versions of each API this client can say them in.

A request names only the fields it means; what a version does not have is left out. A request that would change its
meaning without a field says so through `version_min`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from oncelog.wire import message_class
from oncelog.wire.describe_transactions import DescribeTransactionsResponse


@dataclasses.dataclass(frozen=True, slots=True)
class Api:
    key: int
    name: str
    version_min: int
    version_max: int


# Versions end where a message changes its shape (names for topic ids, one group for many) and says nothing new to us.
PRODUCE = Api(0, "Produce", 3, 12)
FETCH = Api(1, "Fetch", 4, 13)
LIST_OFFSETS = Api(2, "ListOffsets", 1, 9)
METADATA = Api(3, "Metadata", 1, 12)
OFFSET_COMMIT = Api(8, "OffsetCommit", 2, 9)
OFFSET_FETCH = Api(9, "OffsetFetch", 1, 7)
FIND_COORDINATOR = Api(10, "FindCoordinator", 1, 3)
JOIN_GROUP = Api(11, "JoinGroup", 2, 9)
HEARTBEAT = Api(12, "Heartbeat", 0, 4)
LEAVE_GROUP = Api(13, "LeaveGroup", 0, 5)
SYNC_GROUP = Api(14, "SyncGroup", 0, 5)
DESCRIBE_GROUPS = Api(15, "DescribeGroups", 0, 6)
LIST_GROUPS = Api(16, "ListGroups", 0, 5)
SASL_HANDSHAKE = Api(17, "SaslHandshake", 1, 1)
API_VERSIONS = Api(18, "ApiVersions", 0, 3)
CREATE_TOPICS = Api(19, "CreateTopics", 2, 7)
DELETE_TOPICS = Api(20, "DeleteTopics", 1, 5)
DELETE_RECORDS = Api(21, "DeleteRecords", 0, 2)
INIT_PRODUCER_ID = Api(22, "InitProducerId", 0, 5)
ADD_PARTITIONS_TO_TXN = Api(24, "AddPartitionsToTxn", 0, 3)
ADD_OFFSETS_TO_TXN = Api(25, "AddOffsetsToTxn", 0, 4)
END_TXN = Api(26, "EndTxn", 0, 5)
WRITE_TXN_MARKERS = Api(27, "WriteTxnMarkers", 1, 1)
TXN_OFFSET_COMMIT = Api(28, "TxnOffsetCommit", 0, 5)
DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", 1, 4)
ALTER_REPLICA_LOG_DIRS = Api(34, "AlterReplicaLogDirs", 1, 2)
DESCRIBE_LOG_DIRS = Api(35, "DescribeLogDirs", 1, 4)
SASL_AUTHENTICATE = Api(36, "SaslAuthenticate", 0, 2)
CREATE_PARTITIONS = Api(37, "CreatePartitions", 0, 3)
DELETE_GROUPS = Api(42, "DeleteGroups", 0, 2)
INCREMENTAL_ALTER_CONFIGS = Api(44, "IncrementalAlterConfigs", 0, 1)
ALTER_PARTITION_REASSIGNMENTS = Api(45, "AlterPartitionReassignments", 0, 0)
LIST_PARTITION_REASSIGNMENTS = Api(46, "ListPartitionReassignments", 0, 0)
OFFSET_DELETE = Api(47, "OffsetDelete", 0, 0)
DESCRIBE_CLUSTER = Api(60, "DescribeCluster", 0, 1)
DESCRIBE_PRODUCERS = Api(61, "DescribeProducers", 0, 0)
DESCRIBE_TRANSACTIONS = Api(65, "DescribeTransactions", 0, 0)
LIST_TRANSACTIONS = Api(66, "ListTransactions", 0, 1)
CONSUMER_GROUP_HEARTBEAT = Api(68, "ConsumerGroupHeartbeat", 0, 1)
CONSUMER_GROUP_DESCRIBE = Api(69, "ConsumerGroupDescribe", 0, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `fields` holds plain values: dicts for nested messages, sequences for arrays."""

    api: Api
    fields: Mapping[str, Any]
    version_min: int = 0
    version_max: int = 32767
    expects_answer: bool = True

    def message(self, version: int) -> Any:
        """The kio message of one version."""
        kind = message_class(self.api.key, version, "request")
        assert self.fields.keys() <= _field_names(self.api.key, self.api.version_min, self.api.version_max), self
        build: Callable[[Any], Any] = _builder(kind)
        return build(self.fields)


def answer_class(api: Api, version: int) -> Any:
    """The class that reads an answer."""
    if api is DESCRIBE_TRANSACTIONS:
        return DescribeTransactionsResponse
    return message_class(api.key, version, "response")


def milliseconds(duration_ms: float) -> timedelta:
    return timedelta(milliseconds=int(duration_ms))


@cache
def _field_names(api_key: int, version_min: int, version_max: int) -> frozenset[str]:
    """Every field of every version, so that a misspelt one is found whatever the broker speaks."""
    names: set[str] = set()
    for version in range(version_min, version_max + 1):
        names.update(field.name for field in dataclasses.fields(message_class(api_key, version, "request")))
    return frozenset(names)


@cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    """A function from plain values to the message class `kind`, or to what an optional or array of it holds."""
    if dataclasses.is_dataclass(kind):
        return _message_builder(kind)
    if isinstance(kind, types.UnionType):
        arms: list[Any] = [arm for arm in typing.get_args(kind) if arm is not types.NoneType]
        inner = _builder(arms[0])
        return lambda plain: None if plain is None else inner(plain)
    if typing.get_origin(kind) is tuple:
        item = _builder(typing.get_args(kind)[0])
        return lambda plain: tuple([item(value) for value in plain])
    return lambda plain: plain


def _message_builder(kind: Any) -> Callable[[Any], Any]:
    builders: dict[str, Callable[[Any], Any]] = {}
    absent: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        field_type: Any = field.type
        builders[field.name] = _builder(field_type)
        if field.default is dataclasses.MISSING:
            absent |= _absent(field.name, field_type)

    def build(plain: Mapping[str, Any]) -> Any:
        return kind(**absent | {name: make(plain[name]) for name, make in builders.items() if name in plain})

    return build


def _absent(name: str, kind: Any) -> dict[str, Any]:
    """The value of a field that a request does not name and the schema has no default for, if it has an empty one."""
    if isinstance(kind, types.UnionType):
        return {name: None}
    if typing.get_origin(kind) is tuple:
        return {name: ()}
    return {name: False} if kind is bool else {}
