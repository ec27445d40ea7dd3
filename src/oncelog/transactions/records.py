"""The records of `__transaction_state`, byte for byte.

key     int16 version 0, string transactional id
value   int16 version 0 or 1, int64 producer id, int16 epoch, int32 timeout, int8 status, partitions by topic (null
        while Empty), int64 last update, int64 start. Version 1 is flexible and has the tagged fields
        0 previous producer id, 1 next producer id, 2 the client's transaction version.
null    the id is forgotten
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from oncelog.coordination.fields import FieldReader, compact_string, string
from oncelog.records import Record
from oncelog.transactions.state import (
    DEAD,
    EMPTY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARE_EPOCH_FENCE,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)
from oncelog.wire import WireError, unsigned_varint

KEY_VERSION = 0
CLASSIC_VERSION = 0
FLEXIBLE_VERSION = 1
PREVIOUS_PRODUCER_ID_TAG = 0
NEXT_PRODUCER_ID_TAG = 1
CLIENT_VERSION_TAG = 2
FEW_PARTITIONS = 16

_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_KEY_BEGINS = _INT16.pack(KEY_VERSION)
# A tag and a size below 128 take one byte each, as every one here does.
_TAGGED_INT16 = struct.Struct(">BBh")
_TAGGED_INT64 = struct.Struct(">BBq")
_LOGGED = {status.value: status for status in TransactionStatus if status not in (DEAD, PREPARE_EPOCH_FENCE)}


class TransactionRecord(NamedTuple):
    """The metadata of a transactional id, None when the id is forgotten, and the time of the record."""

    transactional_id: str
    metadata: TransactionMetadata | None
    timestamp_ms: int


def encode(record: TransactionRecord, version: int = FLEXIBLE_VERSION) -> Record:
    """Version 1 needs `transaction.version` 1 or above; version 0 leaves out the tagged fields."""
    key = _KEY_BEGINS + string(record.transactional_id)
    value = None if record.metadata is None else _encode_value(record.metadata, version)
    return Record(key, value, timestamp_ms=record.timestamp_ms)


def record_version(record: TransactionRecord, transaction_version: int) -> int:
    """The version to write at this level of `transaction.version`.

    The first has no room for what a producer with an epoch per transaction needs, or one whose epochs ran out.
    """
    metadata = record.metadata
    has_more = metadata is not None and (
        metadata.client_transaction_version > 0
        or metadata.next_producer_id != NO_PRODUCER_ID
        or metadata.previous_producer_id not in (NO_PRODUCER_ID, metadata.producer_id)
    )
    return FLEXIBLE_VERSION if transaction_version >= FLEXIBLE_VERSION or has_more else CLASSIC_VERSION


def decode(record: Record) -> TransactionRecord | None:
    """None for a key or value of an unknown version: a newer broker wrote it. Raises WireError for broken bytes."""
    if record.key is None:
        raise WireError("a record of the transaction log without a key")
    key = FieldReader(record.key)
    if key.int16() != KEY_VERSION:
        return None
    transactional_id = key.string()
    if record.value is None:
        return TransactionRecord(transactional_id, None, record.timestamp_ms)
    value = FieldReader(record.value)
    version = value.int16()
    if version not in (CLASSIC_VERSION, FLEXIBLE_VERSION):
        return None
    metadata = _decode_value(transactional_id, value, flexible=version == FLEXIBLE_VERSION)
    return TransactionRecord(transactional_id, metadata, record.timestamp_ms)


def _encode_value(metadata: TransactionMetadata, version: int) -> bytes:
    flexible = version == FLEXIBLE_VERSION
    head = _HEAD.pack(version, metadata.producer_id, metadata.producer_epoch, metadata.timeout_ms, metadata.status)
    if metadata.status is EMPTY:
        partitions = b"\x00" if flexible else _INT32.pack(-1)
    elif len(metadata.partitions) <= FEW_PARTITIONS:
        partitions = _encode_few_partitions(metadata.partitions, flexible)
    else:
        partitions = _encode_partitions(metadata.partitions, flexible)
    times = _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    return head + partitions + times + (_encode_tags(metadata) if flexible else b"")


def _encode_partitions(partitions: frozenset[TopicPartition], flexible: bool) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    count = unsigned_varint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    chunks = [count]
    for topic, indexes in topics.items():
        ids = struct.pack(f">{len(indexes)}i", *indexes)
        if flexible:
            chunks += (compact_string(topic), unsigned_varint(len(indexes) + 1), ids, b"\x00")
        else:
            chunks += (string(topic), _INT32.pack(len(indexes)), ids)
    return b"".join(chunks)


_encode_few_partitions = lru_cache(maxsize=1024)(_encode_partitions)
"""Most producers write to the same few in every transaction, each of which has two records with them."""


def _encode_tags(metadata: TransactionMetadata) -> bytes:
    fields = []
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        fields.append(_TAGGED_INT64.pack(PREVIOUS_PRODUCER_ID_TAG, _INT64.size, metadata.previous_producer_id))
    if metadata.next_producer_id != NO_PRODUCER_ID:
        fields.append(_TAGGED_INT64.pack(NEXT_PRODUCER_ID_TAG, _INT64.size, metadata.next_producer_id))
    if metadata.client_transaction_version:
        fields.append(_TAGGED_INT16.pack(CLIENT_VERSION_TAG, _INT16.size, metadata.client_transaction_version))
    return bytes((len(fields),)) + b"".join(fields)


def _decode_value(transactional_id: str, value: FieldReader, *, flexible: bool) -> TransactionMetadata:
    producer_id, producer_epoch, timeout_ms, status_id = value.int64(), value.int16(), value.int32(), value.int8()
    status = _LOGGED.get(status_id)
    if status is None:
        raise WireError(f"transactional id {transactional_id!r} is in the log with the status {status_id}")
    partitions = _decode_partitions(value, flexible)
    last_update_ms, start_ms = value.int64(), value.int64()
    tags = value.tagged_fields() if flexible else {}
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        previous_producer_id=_tagged_integer(tags, PREVIOUS_PRODUCER_ID_TAG, NO_PRODUCER_ID),
        next_producer_id=_tagged_integer(tags, NEXT_PRODUCER_ID_TAG, NO_PRODUCER_ID),
        producer_epoch=producer_epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        start_ms=start_ms,
        last_update_ms=last_update_ms,
        client_transaction_version=_tagged_integer(tags, CLIENT_VERSION_TAG, 0),
    )


def _decode_partitions(value: FieldReader, flexible: bool) -> frozenset[TopicPartition]:
    partitions: set[TopicPartition] = set()
    topic_count = value.unsigned_varint() - 1 if flexible else value.int32()
    for _ in range(topic_count):
        topic = value.compact_string() if flexible else value.string()
        partition_count = value.unsigned_varint() - 1 if flexible else value.int32()
        partitions.update((topic, value.int32()) for _ in range(partition_count))
        if flexible:
            value.tagged_fields()
    return frozenset(partitions)


def _tagged_integer(tags: dict[int, bytes], tag: int, default: int) -> int:
    return int.from_bytes(tags[tag], "big", signed=True) if tag in tags else default
