"""Small text files of a log directory: Kafka's checkpoints, `partition.metadata`, `meta.properties`, and `oncelog-checkpoint`.

A checkpoint of Kafka's is its version, the number of entries, and one entry a line, with single spaces between the fields.

`oncelog-checkpoint` keeps what those have no room for: the least length of the journal, and digests of the transaction indexes.
It is one line: the CRC-32C of the rest in eight hexadecimal digits, a space, JSON. It is written before the other checkpoints, so
it is never behind them.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from oncelog.environment import Disk, DiskError
from oncelog.records import crc32c

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"

VERSION_OVER_ZOOKEEPER = "0"
"""The version of `meta.properties` that a Kafka broker over ZooKeeper takes."""
_VERSION = "0"
_UUID_BYTES = 16

PartitionOffsets = Mapping[tuple[str, int], int]


class EpochStart(NamedTuple):
    """The first offset that a leader of this epoch wrote."""

    epoch: int
    start_offset: int


class NodeIdentity(NamedTuple):
    """The node that owns a data directory. Ids are Kafka's 22-character base64 text, but for a cluster id given by hand.

    `is_kafkas`: the owner is a broker of Apache Kafka over ZooKeeper. It takes `meta.properties` of version 0 alone, and oncelog
    version 1 alone, which KRaft has too: neither starts on a directory of the other.
    """

    cluster_id: str
    node_id: int
    directory_id: str
    is_kafkas: bool = False


def read_partition_offsets(disk: Disk, path: str) -> dict[tuple[str, int], int]:
    """Read a checkpoint of one offset for each partition; empty if the file is absent.

    Raises DiskError for a file that is no such checkpoint.
    """
    offsets: dict[tuple[str, int], int] = {}
    for line in _entries(disk, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError as error:
            raise _malformed(path, line) from error
    return offsets


def read_cleaned_offsets(disk: Disk, path: str) -> dict[tuple[str, int], int]:
    """The same of the cleaner's checkpoint, which Kafka makes without a byte and fills with the first cleaning."""
    if disk.exists(path) and not disk.read_file(path):
        return {}
    return read_partition_offsets(disk, path)


def write_partition_offsets(disk: Disk, path: str, offsets: PartitionOffsets) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    disk.replace_file(path, _checkpoint(lines))


def read_epoch_starts(disk: Disk, path: str) -> list[EpochStart]:
    """Read a leader epoch checkpoint. Raises DiskError for a file that is none."""
    starts: list[EpochStart] = []
    for line in _entries(disk, path):
        try:
            epoch, start_offset = line.split(" ")
            starts.append(EpochStart(int(epoch), int(start_offset)))
        except ValueError as error:
            raise _malformed(path, line) from error
    return starts


def epoch_starts_checkpoint(starts: Iterable[EpochStart]) -> bytes:
    return _checkpoint(f"{start.epoch} {start.start_offset}" for start in starts)


def read_topic_id(disk: Disk, path: str) -> UUID:
    """Read `partition.metadata`. Raises DiskError for a file that is none."""
    properties = _properties(disk, path, ": ")
    try:
        return uuid_of(properties["topic_id"])
    except (KeyError, ValueError) as error:
        raise _malformed(path, "topic_id") from error


def write_topic_id(disk: Disk, path: str, topic_id: UUID) -> None:
    """Not durable: a log tells its topic by its directory, and the file is for programs that look at that alone."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, topic_id_file(topic_id))
    file.close()


def topic_id_file(topic_id: UUID) -> bytes:
    """The content of `partition.metadata`."""
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def read_identity(disk: Disk, path: str) -> NodeIdentity:
    """Read `meta.properties`. Raises DiskError for a file that is none."""
    properties = _properties(disk, path, "=")
    is_kafkas = properties.get("version") == VERSION_OVER_ZOOKEEPER
    try:
        return NodeIdentity(
            cluster_id=properties["cluster.id"],
            node_id=int(properties["broker.id" if is_kafkas else "node.id"]),
            directory_id=properties.get("directory.id", ""),
            is_kafkas=is_kafkas,
        )
    except (KeyError, ValueError) as error:
        raise _malformed(path, str(error)) from error


def write_identity(disk: Disk, path: str, identity: NodeIdentity) -> None:
    if identity.is_kafkas:
        lines = [
            f"version={VERSION_OVER_ZOOKEEPER}",
            f"cluster.id={identity.cluster_id}",
            f"broker.id={identity.node_id}",
        ]
    else:
        lines = [
            "version=1",
            f"cluster.id={identity.cluster_id}",
            f"node.id={identity.node_id}",
            f"directory.id={identity.directory_id}",
        ]
    disk.replace_file(path, "".join(f"{line}\n" for line in lines).encode())


def uuid_text(value: UUID) -> str:
    """A UUID as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> UUID:
    """Raises ValueError if the text is not 16 bytes of URL-safe base64."""
    data = urlsafe_b64decode(text + "==")
    if len(data) != _UUID_BYTES:
        raise ValueError(f"{text!r} is not a UUID in base64")
    return UUID(bytes=data)


def _checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _entries(disk: Disk, path: str) -> list[str]:
    if not disk.exists(path):
        return []
    version, *rest = _lines(disk, path) or [""]
    if version != _VERSION:
        raise _malformed(path, version)
    count, *entries = rest or [""]
    if count != str(len(entries)):
        raise DiskError(f"{path} says it has {count or 'no'} entries, and has {len(entries)}")
    return entries


def _properties(disk: Disk, path: str, separator: str) -> dict[str, str]:
    properties = {}
    for line in _lines(disk, path):
        if line and not line.startswith("#"):
            name, _, value = line.partition(separator)
            properties[name.strip()] = value.strip()
    return properties


def _lines(disk: Disk, path: str) -> list[str]:
    try:
        return disk.read_file(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise _malformed(path, str(error)) from error


def _malformed(path: str, what: str) -> DiskError:
    return DiskError(f"{path} is malformed: {what!r}")


OWN_CHECKPOINT = "oncelog-checkpoint"


class IndexDigest(NamedTuple):
    """How many entries a segment's transaction index has, and their CRC-32C."""

    base_offset: int
    entry_count: int
    crc: int


class LogDigest(NamedTuple):
    """The transaction indexes of a log: their entries of markers below `offset`. A segment that is not named has none.

    Where the log begins is said once more, for Kafka's checkpoint has no checksum.
    """

    offset: int
    log_start_offset: int = 0
    indexes: tuple[IndexDigest, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnCheckpoint:
    journal_bytes: int
    aborted: Mapping[tuple[UUID, int], LogDigest] = field(default_factory=dict)
    """By topic id and partition; a log that is not named begins at 0, and has no aborted transaction."""
    durable_ends: Mapping[tuple[UUID, int], int] = field(default_factory=dict)
    """Ends of damaged logs whose write-ahead log is gone: up to there it made them durable, beyond their recovery points."""
    gaps_below: Mapping[tuple[UUID, int], int] | None = None
    """The end, in logs that are or were compacted, of the part with gaps between batches. A log that is not named has no gaps; None
    says nothing of any log.
    """


def write_own_checkpoint(disk: Disk, directory: str, checkpoint: OwnCheckpoint) -> None:
    """Durable on return."""
    content = {
        "journal_bytes": checkpoint.journal_bytes,
        "aborted": {_name(*log): digest for log, digest in checkpoint.aborted.items()},
        "durable_ends": {_name(*log): end for log, end in checkpoint.durable_ends.items()},
        "gaps_below": {_name(*log): end for log, end in (checkpoint.gaps_below or {}).items()},
    }
    body = json.dumps(content, separators=(",", ":")).encode()
    disk.replace_file(f"{directory}/{OWN_CHECKPOINT}", b"%08x %s\n" % (crc32c(body), body))


def read_own_checkpoint(disk: Disk, directory: str) -> OwnCheckpoint | None:
    """None if there is none, or if it is damaged: it only tells what has to be there besides."""
    path = f"{directory}/{OWN_CHECKPOINT}"
    if not disk.exists(path):
        return None
    line = disk.read_file(path)
    body = line[9:-1]
    if line != b"%08x %s\n" % (crc32c(body), body):
        return None
    found = json.loads(body)
    aborted: dict[tuple[UUID, int], LogDigest] = {}
    for name, (offset, log_start_offset, indexes) in found["aborted"].items():
        aborted[_log(name)] = LogDigest(offset, log_start_offset, tuple(IndexDigest(*one) for one in indexes))
    durable_ends = {_log(name): end for name, end in found.get("durable_ends", {}).items()}
    gaps_below = {_log(name): end for name, end in found["gaps_below"].items()} if "gaps_below" in found else None
    return OwnCheckpoint(found["journal_bytes"], aborted, durable_ends, gaps_below)


def _name(topic_id: UUID, partition: int) -> str:
    return f"{topic_id}/{partition}"


def _log(name: str) -> tuple[UUID, int]:
    topic_id, _, partition = name.partition("/")
    return UUID(topic_id), int(partition)
