"""One record inside a batch.

length varint, attributes i8 (unused), timestamp delta varlong, offset delta varint,
key length varint + key, value length varint + value,                        length -1 is null
header count varint, each: key length varint + UTF-8 key, value length varint + value
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.records.varint import VARLONG_BYTES_MAX, read_varint, varint

NO_TIMESTAMP = -1
NO_OFFSET = -1
RECORD_BYTES_MIN = 7
_NULL, _ZERO, _NO_ATTRIBUTES = b"\1", b"\0", b"\0"

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record. Encoding does not look at the offset; decoding gives the absolute offset and timestamp."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = NO_OFFSET


def encode_records(records: Sequence[Record], base_timestamp_ms: int) -> bytes:
    """The records one after the other; record n gets offset delta n."""
    return b"".join(
        [
            _encoded(record, offset_delta, record.timestamp_ms - base_timestamp_ms)
            for offset_delta, record in enumerate(records)
        ]
    )


def decode_records(
    body: bytes, record_count: int, *, base_offset: int, base_timestamp_ms: int, log_append_time_ms: int | None
) -> list[Record]:
    """Read exactly `record_count` records that fill `body`. With `log_append_time_ms` that is the time of them all.

    Raises IndexError or ValueError for anything else.
    """
    if record_count < 0 or record_count * RECORD_BYTES_MIN > len(body):
        raise ValueError(f"{len(body)} bytes cannot hold {record_count} records")
    records: list[Record] = []
    position = 0
    for _ in range(record_count):
        length, position = read_varint(body, position)
        end = position + length
        if length < 0 or end > len(body):
            raise ValueError("a record ends outside its batch")
        timestamp_delta_ms, position = read_varint(body, position + 1, VARLONG_BYTES_MAX)
        offset_delta, position = read_varint(body, position)
        key, position = _read_bytes(body, position, end)
        value, position = _read_bytes(body, position, end)
        headers, position = _read_headers(body, position, end)
        if position != end:
            raise ValueError("the length of a record is not that of its bytes")
        if log_append_time_ms is None:
            timestamp_ms = _wrapped(base_timestamp_ms + timestamp_delta_ms)
        else:
            timestamp_ms = log_append_time_ms
        records.append(Record(key, value, headers, timestamp_ms, _wrapped(base_offset + offset_delta)))
    if position != len(body):
        raise ValueError("bytes follow the last record")
    return records


def _read_headers(body: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(body, position)
    if count == 0:
        return (), position
    if count < 0 or count > end - position:
        raise ValueError(f"a record has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(body, position, end)
        if key is None:
            raise ValueError("a header has no key")
        value, position = _read_bytes(body, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        if length != -1:
            raise ValueError(f"a length of {length}")
        return None, position
    after = position + length
    if after > end:
        raise ValueError("bytes go on after the end of their record")
    return body[position:after], after


def _encoded(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    parts = [
        _NO_ATTRIBUTES,
        varint(_wrapped(timestamp_delta_ms)) if timestamp_delta_ms else _ZERO,
        varint(offset_delta) if offset_delta else _ZERO,
        _sized(record.key),
        _sized(record.value),
        varint(len(record.headers)) if record.headers else _ZERO,
    ]
    for key, value in record.headers:
        parts += _sized(key.encode()), _sized(value)
    encoded = b"".join(parts)
    return varint(len(encoded)) + encoded


def _sized(value: bytes | None) -> bytes:
    return _NULL if value is None else varint(len(value)) + value


def _wrapped(value: int) -> int:
    """`value` as a signed integer of 64 bits, which offsets and timestamps are everywhere else."""
    return (value + 2**63 & 0xFFFF_FFFF_FFFF_FFFF) - 2**63
