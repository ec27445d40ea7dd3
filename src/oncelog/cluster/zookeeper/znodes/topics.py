"""The znodes of a topic and of its partitions' states."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import INT_MAX, JsonObject, encode, in_order_of_scala

VERSION = 1
LOG_DIR_FAILURE = 1

TOPIC_VERSION = 3
STATE_VERSION = 1
ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class AssignedReplicas:
    """`adding` and `removing` are those of a reassignment under way (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """The replicas of each partition by its number. A topic from before Kafka 2.8 has no id until a controller gives it one."""

    topic_id: UUID | None
    partitions: Mapping[int, AssignedReplicas] = field(default_factory=dict)

    def encode(self) -> bytes:
        in_order = [(name, self.partitions[int(name)]) for name in in_order_of_scala(map(str, self.partitions))]
        adding = {name: one.adding for name, one in self.partitions_by_name() if one.adding}
        removing = {name: one.removing for name, one in self.partitions_by_name() if one.removing}
        topic_id = {"topic_id": id_text(self.topic_id)} if self.topic_id is not None else {}
        return encode(
            {
                "partitions": {name: one.replicas for name, one in in_order},
                **topic_id,
                "adding_replicas": {name: adding[name] for name in in_order_of_scala(adding)},
                "removing_replicas": {name: removing[name] for name in in_order_of_scala(removing)},
                "version": TOPIC_VERSION,
            }
        )

    def partitions_by_name(self) -> list[tuple[str, AssignedReplicas]]:
        return [(str(number), one) for number, one in self.partitions.items()]


def decode_topic(name: str, data: bytes) -> TopicZnode:
    """Versions 1 to 3. Raises ZnodeError.

    Kafka takes what is no JSON for a topic without partitions. Here it is an error: a controller that went on would write
    that into it.
    """
    found = JsonObject.parse(paths.topic(name), data)
    replicas = found.optional_field("partitions").each(JsonObject.int32s)
    adding = found.optional_field("adding_replicas").each(JsonObject.int32s)
    removing = found.optional_field("removing_replicas").each(JsonObject.int32s)
    partitions = {
        found.number("a partition", number): AssignedReplicas(
            replicas[number], adding.get(number, ()), removing.get(number, ())
        )
        for number in replicas
    }
    text = found.optional_string("topic_id")
    return TopicZnode(_read_id(found, text) if text is not None else None, dict(sorted(partitions.items())))


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    """Leader and in-sync replicas. `is_recovering` is of a leader that was not in sync (leader_recovery_state 1, KIP-704)."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_recovering: bool = False

    def encode(self) -> bytes:
        recovery = {"leader_recovery_state": 1} if self.is_recovering else {}
        return encode(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": STATE_VERSION,
                **recovery,
                "leader_epoch": self.leader_epoch,
                "isr": self.isr,
            }
        )


def decode_partition_state(topic: str, partition: int, data: bytes) -> PartitionStateZnode:
    """Raises ZnodeError."""
    found = JsonObject.parse(paths.partition_state(topic, partition), data)
    recovery = found.int32("leader_recovery_state", default=0)
    if recovery not in (0, 1):
        raise found.fail(f"there is no leader_recovery_state {recovery}")
    leader_epoch = found.int32("leader_epoch")
    if leader_epoch == INT_MAX:
        raise found.fail("there is no leader_epoch after it, and no leader can have it")
    return PartitionStateZnode(
        found.int32("controller_epoch"),
        found.int32("leader"),
        leader_epoch,
        found.int32s("isr"),
        recovery == 1,
    )


def id_text(topic_id: UUID) -> str:
    """As Kafka writes an id: 22 letters of base64 that do no harm in an address."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def _read_id(found: JsonObject, text: str) -> UUID:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        data = b""
    if len(data) != ID_BYTES:
        raise found.fail(f"topic_id is none: {text!r}")
    return UUID(bytes=data)


TopicPartition = tuple[str, int]


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    return _encode_partitions(partitions)


def decode_isr_change(name: str, data: bytes) -> list[TopicPartition]:
    """`name` is that of the notification below /isr_change_notification. Raises ZnodeError."""
    return _decode_partitions(f"{paths.ISR_CHANGES}/{name}", data)


def encode_preferred_replica_election(partitions: Iterable[TopicPartition]) -> bytes:
    return _encode_partitions(partitions)


def decode_preferred_replica_election(data: bytes) -> list[TopicPartition]:
    """Raises ZnodeError."""
    return _decode_partitions(paths.PREFERRED_REPLICA_ELECTION, data)


def encode_log_dir_event(broker_id: int) -> bytes:
    """A directory of this broker has failed."""
    return encode({"version": VERSION, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(name: str, data: bytes) -> int:
    """The broker; `name` is that of the notification below /log_dir_event_notification. Raises ZnodeError."""
    return JsonObject.parse(f"{paths.LOG_DIR_EVENTS}/{name}", data).int32("broker")


def encode_reassignments(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for (topic, partition), replicas in targets.items()
    ]
    return encode({"version": VERSION, "partitions": partitions})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises ZnodeError."""
    return {
        (one.string("topic"), one.int32("partition")): one.int32s("replicas")
        for one in JsonObject.parse(paths.REASSIGN_PARTITIONS, data).fields("partitions")
    }


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode({"version": VERSION, "partitions": listed})


def _decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    return [(one.string("topic"), one.int32("partition")) for one in JsonObject.parse(path, data).fields("partitions")]
