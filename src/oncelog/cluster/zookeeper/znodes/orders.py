"""What brokers and tools tell the controller through ZooKeeper: notifications and orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.cluster.zookeeper.znodes import paths
from oncelog.cluster.zookeeper.znodes.json_text import JsonObject, encode

VERSION = 1
LOG_DIR_FAILURE = 1

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
