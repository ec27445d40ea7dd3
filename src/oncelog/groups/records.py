"""The records of `__consumer_offsets`: committed offsets, byte for byte, and the records of members by their key.

key     int16 version 0 or 1, string group, string topic, int32 partition
value   int16 version, then for
        0  int64 offset, string metadata, int64 commit time
        1  the same, and int64 expire time: an offset with a retention of its own
        2  as 0
        3  int64 offset, int32 leader epoch, string metadata, int64 commit time
        4  as 3 with a compact string and tagged fields: field 0 is the id of the topic (Kafka 4.3)
null    the offset is forgotten

A commit that asks for a retention is written in version 1, which has no room for the id of the topic. Other commits are written
in version 4 if the id is to be known, else in version 3. Kafka 3.9 reads version 4 and passes over the id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from oncelog.coordination.fields import FieldReader, compact_string, string
from oncelog.coordination.names import first_of
from oncelog.groups.classic.metadata import KEY_VERSION as GROUP_KEY_VERSION
from oncelog.groups.classic.metadata import GroupMetadataRecord, decode_metadata, encode_metadata
from oncelog.records import NO_PRODUCER_ID, Record
from oncelog.wire import WireError

if TYPE_CHECKING:
    from oncelog.groups.consumer.records import ConsumerRecord


NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_EXPIRY = -1

OFFSET_KEY_VERSIONS = (0, 1)
KEY_VERSION = 1
EXPIRING_VERSION = 1
LEADER_EPOCH_VERSION = 3
FLEXIBLE_VERSION = 4
TOPIC_ID_TAG = 0
TOPIC_IDS_KEPT = 1024

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hqi")
_EXPIRING_HEAD = struct.Struct(">hq")
_INT64 = struct.Struct(">q")
_TIMES = struct.Struct(">qq")
_TOPIC_ID = bytes((1, TOPIC_ID_TAG, 16))
"""The bytes before a topic's id: one tagged field, its tag and its size."""


class CommittedOffset(NamedTuple):
    """The next offset a group wants to read. Times are milliseconds since 1970; -1 is no leader epoch, no expiry.

    `topic_id` is that of the topic it was committed for, if it is known: another one may have its name by now.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY
    topic_id: UUID | None = None


class OffsetRecord(NamedTuple):
    """A committed offset of a group, or None when it is forgotten, and the time of the record."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset | None
    timestamp_ms: int


def encode_offset(record: OffsetRecord) -> Record:
    key = _INT16.pack(KEY_VERSION) + string(record.group) + string(record.topic) + _INT32.pack(record.partition)
    value = None if record.committed is None else _encode_value(record.committed)
    return Record(key, value, timestamp_ms=record.timestamp_ms)


def decode_offset(key: FieldReader, record: Record) -> OffsetRecord | None:
    """`key` is past its version. None for a value of a version that is not known. Raises WireError for broken bytes."""
    group, topic, partition = key.string(), key.string(), key.int32()
    if record.value is None:
        return OffsetRecord(group, topic, partition, None, record.timestamp_ms)
    value = FieldReader(record.value)
    version = value.int16()
    if not 0 <= version <= FLEXIBLE_VERSION:
        return None
    return OffsetRecord(group, topic, partition, _decode_value(value, version), record.timestamp_ms)


def _encode_value(committed: CommittedOffset) -> bytes:
    if committed.expire_ms != NO_EXPIRY:
        times = _TIMES.pack(committed.commit_ms, committed.expire_ms)
        return _EXPIRING_HEAD.pack(EXPIRING_VERSION, committed.offset) + string(committed.metadata) + times
    if committed.topic_id is not None:
        head = _HEAD.pack(FLEXIBLE_VERSION, committed.offset, committed.leader_epoch) + compact_string(
            committed.metadata
        )
        return head + _INT64.pack(committed.commit_ms) + _TOPIC_ID + committed.topic_id.bytes
    head = _HEAD.pack(LEADER_EPOCH_VERSION, committed.offset, committed.leader_epoch)
    return head + string(committed.metadata) + _INT64.pack(committed.commit_ms)


def _decode_value(value: FieldReader, version: int) -> CommittedOffset:
    offset = value.int64()
    leader_epoch = value.int32() if version >= LEADER_EPOCH_VERSION else NO_LEADER_EPOCH
    metadata = value.compact_string() if version >= FLEXIBLE_VERSION else value.string()
    commit_ms = value.int64()
    expire_ms = value.int64() if version == EXPIRING_VERSION else NO_EXPIRY
    topic_id = _decode_topic_id(value) if version >= FLEXIBLE_VERSION else None
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def _decode_topic_id(value: FieldReader) -> UUID | None:
    found = None
    for _ in range(value.unsigned_varint()):
        tag, data = value.unsigned_varint(), value.raw(value.unsigned_varint())
        if tag == TOPIC_ID_TAG and any(data):
            found = _topic_id(data)
    return found


@lru_cache(maxsize=TOPIC_IDS_KEPT)
def _topic_id(data: bytes) -> UUID:
    """One object for all offsets of a topic. Raises WireError."""
    if len(data) != 16:
        raise WireError("a topic id that is not one")
    return UUID(bytes=data)


GroupRecord: TypeAlias = "OffsetRecord | GroupMetadataRecord | ConsumerRecord"

CONSUMER_KEY_VERSIONS = (3, 4, 5, 6, 7, 8, 16)


def encode(record: GroupRecord) -> Record:
    if isinstance(record, OffsetRecord):
        return encode_offset(record)
    if isinstance(record, GroupMetadataRecord):
        return encode_metadata(record)
    # Imported when there are any: a broker without consumer groups starts without them.
    from oncelog.groups.consumer.records import encode_consumer

    return encode_consumer(record)


def decode(record: Record) -> GroupRecord | None:
    """The record; None for an unknown type or version. Raises WireError for broken bytes."""
    if record.key is None:
        raise WireError("a record of the offsets topic without a key")
    key = FieldReader(record.key)
    version = key.int16()
    if version in OFFSET_KEY_VERSIONS:
        return decode_offset(key, record)
    if version in CONSUMER_KEY_VERSIONS:
        from oncelog.groups.consumer.records import decode_consumer

        return decode_consumer(version, key, record)
    return decode_metadata(key.string(), record) if version == GROUP_KEY_VERSION else None


def decode_of_member(record: Record) -> GroupRecord | None:
    """The same in a cluster over ZooKeeper, which has no consumer groups: Kafka 3.9 leaves out what is of them, too."""
    if record.key is not None and FieldReader(record.key).int16() in CONSUMER_KEY_VERSIONS:
        return None
    return decode(record)


def news_of(records: Sequence[GroupRecord], producer_id: int = NO_PRODUCER_ID) -> Iterator[str]:
    """`producer_id` is that of the transaction to which they belong."""
    yield from filter(None, (getattr(record, "news", None) for record in records))
    offsets = [record for record in records if isinstance(record, OffsetRecord)]
    committed = [f"{one.topic}-{one.partition} at {one.committed.offset}" for one in offsets if one.committed]
    forgotten = [f"{one.topic}-{one.partition}" for one in offsets if one.committed is None]
    if committed:
        is_pending = producer_id != NO_PRODUCER_ID
        how = f"part of the transaction of producer id {producer_id}" if is_pending else "committed"
        yield f"offsets are {how}: {first_of(committed)}"
    if forgotten:
        yield f"offsets are forgotten: {first_of(forgotten)}"
