"""Messages between a controller over ZooKeeper and its brokers: Kafka 4 has them no more, nor has the codec.

The definitions follow those that Kafka 3.9 publishes: a message has its fields once, each with the first version that has it.
The classes of a version are made when they are first asked for. `inter.broker.protocol.version` says which version is sent:
from 3.4 on, the last of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, make_dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header import v1 as request_header_v1
from kio.schema.request_header import v2 as request_header_v2
from kio.schema.response_header import v0 as response_header_v0
from kio.schema.response_header import v1 as response_header_v1
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64

from oncelog.wire import register_messages

LEADER_AND_ISR = 4
STOP_REPLICA = 5
UPDATE_METADATA = 6
CONTROLLED_SHUTDOWN = 7

ITEMS_MAX = 2_000_000
"""Items in all arrays of a request: a broker that starts is sent every partition at once, and each is about ten items."""

_NULLABLE_UUID = UUID | None
_NULLABLE_STRING = str | None
_KAFKA_TYPES: Mapping[Any, str] = MappingProxyType(
    {
        bool: "bool",
        i8: "int8",
        i16: "int16",
        i32: "int32",
        i64: "int64",
        BrokerId: "int32",
        str: "string",
        TopicName: "string",
        ErrorCode: "error_code",
        _NULLABLE_UUID: "uuid",
        _NULLABLE_STRING: "string",
    }
)


class MessageField(NamedTuple):
    """A field: its type is one of the codec's, or an array."""

    name: str
    type: Any
    default: Any = MISSING
    since: int = 0
    """The first version that has it."""
    tag: int | None = None


class MessageStruct(NamedTuple):
    name: str
    fields: tuple[MessageField, ...]


class MessageArray(NamedTuple):
    """An array of structs, or of values of one type."""

    items: Any


class MessageApi(NamedTuple):
    name: str
    versions: range
    flexible_since: int
    request: MessageStruct
    response: MessageStruct


_CONTROLLER_ID = MessageField("controller_id", BrokerId)
_CONTROLLER_EPOCH = MessageField("controller_epoch", i32)
_BROKER_EPOCH = MessageField("broker_epoch", i64, default=i64(-1))
_PARTITION_INDEX = MessageField("partition_index", i32)
_TOPIC_NAME = MessageField("topic_name", TopicName)
_TOPIC_ID = MessageField("topic_id", _NULLABLE_UUID)
_LEADER = MessageField("leader", BrokerId)
_LEADER_EPOCH = MessageField("leader_epoch", i32)
_ISR = MessageField("isr", MessageArray(BrokerId))
_REPLICAS = MessageField("replicas", MessageArray(BrokerId))
_ERROR_CODE = MessageField("error_code", ErrorCode)


def _struct(name: str, *fields: MessageField) -> MessageStruct:
    return MessageStruct(name, fields)


def _array(name: str, items: Any) -> MessageField:
    return MessageField(name, MessageArray(items))


def _is_kraft_controller(since: int) -> MessageField:
    return MessageField("is_kraft_controller", bool, default=False, since=since)


# LeaderAndIsr

_HOSTED_PARTITION = _struct(
    "LeaderAndIsrPartitionState",
    _PARTITION_INDEX,
    _CONTROLLER_EPOCH,
    _LEADER,
    _LEADER_EPOCH,
    _ISR,
    MessageField("partition_epoch", i32),
    _REPLICAS,
    _array("adding_replicas", BrokerId),
    _array("removing_replicas", BrokerId),
    MessageField("is_new", bool, default=False),
    MessageField("leader_recovery_state", i8, default=i8(0), since=6),
)
_HOSTED_TOPIC = _struct("LeaderAndIsrTopicState", _TOPIC_NAME, _TOPIC_ID, _array("partition_states", _HOSTED_PARTITION))
_LIVE_LEADER = _struct(
    "LeaderAndIsrLiveLeader",
    MessageField("broker_id", BrokerId),
    MessageField("host_name", str),
    MessageField("port", i32),
)
_LEADER_AND_ISR_REQUEST = _struct(
    "LeaderAndIsrRequest",
    _CONTROLLER_ID,
    _is_kraft_controller(since=7),
    _CONTROLLER_EPOCH,
    _BROKER_EPOCH,
    MessageField("type", i8),  # 0: unspecified, 1: some of the partitions, 2: all of them.
    _array("topic_states", _HOSTED_TOPIC),
    _array("live_leaders", _LIVE_LEADER),
)
_HOSTED_PARTITION_ERROR = _struct("LeaderAndIsrPartitionError", _PARTITION_INDEX, _ERROR_CODE)
_HOSTED_TOPIC_ERROR = _struct("LeaderAndIsrTopicError", _TOPIC_ID, _array("partition_errors", _HOSTED_PARTITION_ERROR))
_LEADER_AND_ISR_RESPONSE = _struct("LeaderAndIsrResponse", _ERROR_CODE, _array("topics", _HOSTED_TOPIC_ERROR))

# StopReplica

_STOPPED_PARTITION = _struct(
    "StopReplicaPartitionState",
    _PARTITION_INDEX,
    MessageField("leader_epoch", i32, default=i32(-1)),
    MessageField("delete_partition", bool),
)
_STOPPED_TOPIC = _struct("StopReplicaTopicState", _TOPIC_NAME, _array("partition_states", _STOPPED_PARTITION))
_STOP_REPLICA_REQUEST = _struct(
    "StopReplicaRequest",
    _CONTROLLER_ID,
    _is_kraft_controller(since=4),
    _CONTROLLER_EPOCH,
    _BROKER_EPOCH,
    _array("topic_states", _STOPPED_TOPIC),
)
_STOPPED_PARTITION_ERROR = _struct("StopReplicaPartitionError", _TOPIC_NAME, _PARTITION_INDEX, _ERROR_CODE)
_STOP_REPLICA_RESPONSE = _struct(
    "StopReplicaResponse", _ERROR_CODE, _array("partition_errors", _STOPPED_PARTITION_ERROR)
)

# UpdateMetadata

_KNOWN_PARTITION = _struct(
    "UpdateMetadataPartitionState",
    _PARTITION_INDEX,
    _CONTROLLER_EPOCH,
    _LEADER,
    _LEADER_EPOCH,
    _ISR,
    MessageField("zk_version", i32),
    _REPLICAS,
    _array("offline_replicas", BrokerId),
)
_KNOWN_TOPIC = _struct("UpdateMetadataTopicState", _TOPIC_NAME, _TOPIC_ID, _array("partition_states", _KNOWN_PARTITION))
_ENDPOINT = _struct(
    "UpdateMetadataEndpoint",
    MessageField("port", i32),
    MessageField("host", str),
    MessageField("listener", str),
    MessageField("security_protocol", i16),
)
_BROKER = _struct(
    "UpdateMetadataBroker",
    MessageField("id", BrokerId),
    _array("endpoints", _ENDPOINT),
    MessageField("rack", _NULLABLE_STRING),
)
_UPDATE_METADATA_REQUEST = _struct(
    "UpdateMetadataRequest",
    _CONTROLLER_ID,
    _is_kraft_controller(since=8),
    MessageField("type", i8, default=i8(0), since=8, tag=0),  # As that of LeaderAndIsr.
    _CONTROLLER_EPOCH,
    _BROKER_EPOCH,
    _array("topic_states", _KNOWN_TOPIC),
    _array("live_brokers", _BROKER),
)
_UPDATE_METADATA_RESPONSE = _struct("UpdateMetadataResponse", _ERROR_CODE)

# ControlledShutdown

_CONTROLLED_SHUTDOWN_REQUEST = _struct("ControlledShutdownRequest", MessageField("broker_id", BrokerId), _BROKER_EPOCH)
_REMAINING_PARTITION = _struct("RemainingPartition", _TOPIC_NAME, _PARTITION_INDEX)
_CONTROLLED_SHUTDOWN_RESPONSE = _struct(
    "ControlledShutdownResponse", _ERROR_CODE, _array("remaining_partitions", _REMAINING_PARTITION)
)

_APIS: Mapping[int, MessageApi] = MappingProxyType(
    {
        LEADER_AND_ISR: MessageApi("leader_and_isr", range(5, 8), 4, _LEADER_AND_ISR_REQUEST, _LEADER_AND_ISR_RESPONSE),
        STOP_REPLICA: MessageApi("stop_replica", range(3, 5), 2, _STOP_REPLICA_REQUEST, _STOP_REPLICA_RESPONSE),
        UPDATE_METADATA: MessageApi(
            "update_metadata", range(7, 9), 6, _UPDATE_METADATA_REQUEST, _UPDATE_METADATA_RESPONSE
        ),
        CONTROLLED_SHUTDOWN: MessageApi(
            "controlled_shutdown", range(2, 4), 3, _CONTROLLED_SHUTDOWN_REQUEST, _CONTROLLED_SHUTDOWN_RESPONSE
        ),
    }
)
VERSIONS: Mapping[int, range] = MappingProxyType({api_key: api.versions for api_key, api in _APIS.items()})
"""The versions of each API key that are defined here."""


def _classes(api_key: int, version: int) -> SimpleNamespace:
    """The classes of one version, of the request and of the response, by their names."""
    api = _APIS[api_key]
    assert version in api.versions, f"{api.name} has no version {version}"
    is_flexible = version >= api.flexible_since
    request_header = request_header_v2 if is_flexible else request_header_v1
    response_header = response_header_v1 if is_flexible else response_header_v0
    common = {"__version__": i16(version), "__flexible__": is_flexible, "__api_key__": i16(api_key)}
    made: dict[str, Any] = {}
    _make(api.request, EntityType.request, common | {"__header_schema__": request_header.RequestHeader}, made)
    _make(api.response, EntityType.response, common | {"__header_schema__": response_header.ResponseHeader}, made)
    return SimpleNamespace(**made)


def _make(struct: MessageStruct, entity_type: EntityType, constants: dict[str, Any], made: dict[str, Any]) -> Any:
    fields = [
        (one.name, *_annotated(one, constants, made)) for one in struct.fields if constants["__version__"] >= one.since
    ]
    made[struct.name] = make_dataclass(
        struct.name,
        fields,
        namespace=constants | {"__type__": entity_type, "__items_max__": ITEMS_MAX, "__module__": __name__},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    return made[struct.name]


def _annotated(one: MessageField, constants: dict[str, Any], made: dict[str, Any]) -> tuple[Any, Any]:
    """The annotation and the dataclass field, as the codec reads them."""
    is_array = isinstance(one.type, MessageArray)
    kind = one.type.items if is_array else one.type
    metadata: dict[str, Any] = {} if one.tag is None else {"tag": one.tag}
    if isinstance(kind, MessageStruct):
        kind = _make(kind, EntityType.nested, constants, made)
    else:
        metadata["kafka_type"] = _KAFKA_TYPES[kind]
    annotation: Any = tuple[kind, ...] if is_array else kind  # type: ignore[valid-type]  # Made while it runs.
    return annotation, field(default=one.default, metadata=metadata)


for _api_key, _api in _APIS.items():
    register_messages(_api_key, _api.name, partial(_classes, _api_key))
