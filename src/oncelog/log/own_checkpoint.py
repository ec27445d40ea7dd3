"""What Kafka's checkpoints have no room for: how long the journal is at least, and what the transaction indexes hold.

One line: the CRC-32C of the rest in eight hexadecimal digits, a space, JSON. It is written before the other checkpoints, so it
is never behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from oncelog.environment import Disk
from oncelog.records.checksum import crc32c

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
    """Of damaged logs whose write-ahead log is gone: up to where that made them durable, beyond their recovery points."""
    gaps_below: Mapping[tuple[UUID, int], int] | None = None
    """Of logs that are or were compacted: below it offsets may be missing between batches. One that is not named has no gaps; None
    says nothing of any.
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
