"""Compaction of one batch: some of its records stay, and its header still says which offsets and sequences it had.

The records that stay keep their bytes, for their offset deltas count from a base offset that stays. Only a delete horizon, which
takes the place of the base timestamp (KIP-534), has their timestamp deltas written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.records.batch import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    seal,
    seal_packed,
)
from oncelog.records.compression import decompress
from oncelog.records.record import (
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    VARLONG_BYTES_MAX,
    CorruptBatchError,
    read_varint,
    varint,
)

_NO_ATTRIBUTES = b"\0"


class KeyedRecord(NamedTuple):
    """A record between two positions of a batch's body. A tombstone is one that `has_value` is false of."""

    start: int
    end: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def body_of(header: BatchHeader, data: Buffer, position: int) -> bytes:
    """The records of the batch at `position`, decompressed. Raises CorruptBatchError and UnsupportedCompressionError."""
    return decompress(header.codec, memoryview(data)[position + HEADER_BYTES : position + header.size_bytes])


def keyed_records(header: BatchHeader, body: bytes) -> list[KeyedRecord]:
    """Every record of a batch. Raises CorruptBatchError."""
    try:
        found = list(_keyed_records(body, header.record_count))
    except (IndexError, ValueError) as error:
        raise _malformed(header) from error
    if (found[-1].end if found else 0) != len(body):
        raise _malformed(header)
    return found


def without_records(header: BatchHeader) -> bytes:
    """The batch with nothing in it: it stands for its offsets, and for the last sequence of its producer."""
    emptied = header._replace(
        attributes=header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT),
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    return seal_packed(emptied, b"")


def with_records(header: BatchHeader, body: bytes, kept: Sequence[KeyedRecord], new_horizon_ms: int | None) -> bytes:
    """The batch with these of its records alone, at least one, and with a delete horizon that it had not yet."""
    deltas_ms = [_timestamp_delta_ms(body, record) for record in kept]
    max_timestamp_ms = header.max_timestamp_ms
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp_ms = header.base_timestamp_ms + max(deltas_ms)
    changed = header._replace(max_timestamp_ms=max_timestamp_ms, record_count=len(kept))
    if new_horizon_ms is None:
        return seal(changed, b"".join([body[record.start : record.end] for record in kept]))
    moved_ms = header.base_timestamp_ms - new_horizon_ms
    changed = changed._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp_ms=new_horizon_ms)
    return seal(
        changed,
        b"".join([_moved(body, record, delta_ms + moved_ms) for record, delta_ms in zip(kept, deltas_ms, strict=True)]),
    )


def _keyed_records(body: bytes, record_count: int) -> list[KeyedRecord]:
    """Raises IndexError and ValueError for what is no record. Nearly all numbers take one or two bytes."""
    if not 0 <= record_count * RECORD_BYTES_MIN <= len(body):
        raise ValueError(f"{len(body)} bytes cannot hold {record_count} records")
    found: list[KeyedRecord] = []
    position = 0
    for _ in range(record_count):
        start = position
        byte = body[start]
        if byte < 0x80:
            length, at = byte >> 1, start + 1
        else:
            length, at = read_varint(body, start)
        end = at + length
        at += 1
        while body[at] >= 0x80:
            at += 1
        byte = body[at + 1]
        if byte < 0x80:
            delta, at = byte >> 1, at + 2
        else:
            delta, at = read_varint(body, at + 1)
        byte = body[at]
        if byte < 0x80:
            length, at = -(byte & 1) or byte >> 1, at + 1
        else:
            length, at = read_varint(body, at)
        key = None
        if length >= 0:
            key = body[at : at + length]
            at += length
        has_value = not body[at] & 1
        if not start < at < end <= len(body):
            raise ValueError("a record ends outside its batch")
        found.append(KeyedRecord(start, end, delta, key, has_value))
        position = end
    return found


def _timestamp_delta_ms(body: bytes, record: KeyedRecord) -> int:
    _, at = read_varint(body, record.start)
    return read_varint(body, at + 1, VARLONG_BYTES_MAX)[0]


def _moved(body: bytes, record: KeyedRecord, delta_ms: int) -> bytes:
    """A record with another timestamp delta."""
    _, at = read_varint(body, record.start)
    _, after = read_varint(body, at + 1, VARLONG_BYTES_MAX)
    content = b"".join((_NO_ATTRIBUTES, varint(delta_ms), body[after : record.end]))
    return varint(len(content)) + content


def _malformed(header: BatchHeader) -> CorruptBatchError:
    return CorruptBatchError(f"the batch at offset {header.base_offset} holds a malformed record")
