"""The values that go in and out of the client's public methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(IntEnum):
    """The special timestamps of ListOffsets. Any other number is a time in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class TransactionVersion(IntEnum):
    """The two transaction protocols that clients speak: TV2 (KIP-890) bumps the epoch with every transaction."""

    TV1 = 1
    TV2 = 2


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """An answer of ListOffsets: `offset` is -1 when no record is as late as the time that was asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset. `offset` is -1 where the group committed none."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group and the member that commits offsets for it. Without a generation there is no member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and epoch; records that carry an older epoch are refused."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerState:
    """One producer of a partition. `transaction_start_offset` is -1 when no transaction is open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id, as its coordinator knows it; `start_ms` is -1 when no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


class ConfigSource(IntEnum):
    """The sources of a setting's value, the strongest first."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic, group or broker; the value of a sensitive one is None."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: ConfigSource = ConfigSource.UNKNOWN
    documentation: str | None = None


class ConfigKind(IntEnum):
    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """The owner of settings: a topic, a group, a broker by its number as text, or, without a name, every broker."""

    kind: ConfigKind
    name: str

    def __str__(self) -> str:
        is_every_broker = self.kind is ConfigKind.BROKER and not self.name
        return "every broker" if is_every_broker else f"{self.kind.name.lower()} {self.name}"


class ConfigOperation(IntEnum):
    """SET and DELETE go with every setting, the others with lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One step of a change of settings; DELETE has no value."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition whose replicas go to other brokers: all that it has meanwhile, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A replica's log in one of its broker's log directories.

    One that `is_future` is a copy under way, which will replace the log in the other directory; `offset_lag` is how far it is
    behind that. A log that is read and written has the lag 0 behind its high watermark where it is the only replica.
    """

    partition: TopicPartition
    broker: int
    directory: str
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The versions of each API, by its key, that one broker serves: the lowest and the highest."""

    node: Node
    versions: Mapping[int, tuple[int, int]]
