"""The record that a batch write leaves in its transaction, so that the same write is known when it is run again.

It is metadata of a committed offset, as the fence record of a micro-batch is, but in a group of its own for each write id:
a write that was made long ago is known however many others came after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from oncelog.client.values import OffsetAndMetadata, TopicPartition

RECORD = "oncelog write"
RECORD_VERSION = 1
WRITE_ID_CHARACTERS_MAX = 200


class WriteIdError(Exception):
    """The group of a write id holds something else than that write."""


@dataclass(frozen=True, slots=True)
class WriteNames:
    """Under which names a batch write is made. `write_id` is None where a repetition need not be known."""

    transactional_id: str
    group_id: str
    write_id: str | None


def write_names(transactional_id: str | None, write_id: str | None) -> WriteNames:
    """The transactional id and group of a write. Raises ValueError.

    Two runs of one write have to fence each other, so without a transactional id the write id gives it. A write that has
    neither gets one that nobody else has.
    """
    if write_id is not None and not 0 < len(write_id) <= WRITE_ID_CHARACTERS_MAX:
        raise ValueError(f"write_id has 1 to {WRITE_ID_CHARACTERS_MAX} characters, not {len(write_id)}")
    if transactional_id is not None and not transactional_id:
        raise ValueError("transactional_id is a name, or None for one that is made up")
    if transactional_id is None:
        made_up = f"oncelog-write-{uuid4().hex if write_id is None else write_id}"
        return WriteNames(made_up, made_up, write_id)
    return WriteNames(transactional_id, f"{transactional_id}-{write_id or 'write'}", write_id)


def was_written(committed: Mapping[TopicPartition, OffsetAndMetadata], write_id: str, topic: str | None) -> bool:
    """Whether a write's group has its record. `topic` is None where the rows name theirs.

    Raises WriteIdError when the group is somebody else's, or the write was one to another topic.
    """
    for partition, entry in committed.items():
        if _read(entry.metadata) != write_id:
            raise WriteIdError(
                f"the group of write_id {write_id!r} has committed offsets of {partition} that are not of this write; "
                "choose another write_id or transactional_id"
            )
        if topic is not None and topic != partition.topic:
            raise WriteIdError(
                f"write_id {write_id!r} was written to topic {partition.topic!r}, so this write to {topic!r} is another one; "
                "choose another write_id"
            )
        return True
    return False


def record_partitions(topic: str | None) -> list[TopicPartition]:
    """Where the record of a write will be, as far as that is known before its rows are."""
    return [] if topic is None else [TopicPartition(topic, 0)]


def write_entries(
    write_id: str | None, topic: str | None, written: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit with a write. An offset belongs to a topic: the one that was named, or else one that was written."""
    named = topic or min((partition.topic for partition in written), default=None)
    if write_id is None or named is None:
        return {}
    metadata = json.dumps({RECORD: RECORD_VERSION, "id": write_id}, separators=(",", ":"))
    return {TopicPartition(named, 0): OffsetAndMetadata(0, metadata)}


def _read(metadata: str) -> str | None:
    try:
        fields = json.loads(metadata)
        return str(fields["id"]) if fields[RECORD] == RECORD_VERSION else None
    except (ValueError, KeyError, TypeError):
        return None
