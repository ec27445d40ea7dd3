"""One record inside a batch, the partition that its key belongs to, and the errors of records that cannot be stored or read.

length varint, attributes i8 (unused), timestamp delta varlong, offset delta varint,
key length varint + key, value length varint + value,                        length -1 is null
header count varint, each: key length varint + UTF-8 key, value length varint + value

A varint is zigzag, seven bits to a byte, least significant first: not one of the unsigned ones of the flexible protocol messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple
from zlib import crc32

from oncelog.wire.errors import ErrorCode, WireError


class RecordsError(WireError):
    """The bytes are not a record batch that may be stored or read. `error` is the protocol's code for it."""

    error: ClassVar[ErrorCode] = ErrorCode.unknown_server_error


class CorruptBatchError(RecordsError):
    """Bytes are missing, or are not the ones that were written."""

    error = ErrorCode.corrupt_message


class DecompressedSizeError(CorruptBatchError):
    """The records become more bytes than the reader has room for."""


class RecordTooLargeError(RecordsError):
    """The batch is larger than its topic takes."""

    error = ErrorCode.message_too_large


class InvalidRecordError(RecordsError):
    """The bytes are what the producer sent, and a producer may not send them."""

    error = ErrorCode.invalid_record


class UnsupportedCompressionError(RecordsError):
    """The batch names a codec that does not exist."""

    error = ErrorCode.unsupported_compression_type


VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
SMALL_VALUES = 1024


def varint(value: int) -> bytes:
    """A signed integer of at most 64 bits."""
    return _SMALL[value] if 0 <= value < SMALL_VALUES else _encoded_varint(value)


def _encoded_varint(value: int) -> bytes:
    output = bytearray()
    encoded = (value << 1) ^ (value >> 63)
    while encoded > 0x7F:
        output.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    output.append(encoded)
    return bytes(output)


def read_varint(data: bytes | memoryview, position: int, size_bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Read one integer; return it and the position after it.

    Raises IndexError at the end of the data, and ValueError for an integer of more bytes than the width allows.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    encoded = byte & 0x7F
    for shift in range(7, 7 * size_bytes_max, 7):
        byte = data[position]
        position += 1
        encoded |= (byte & 0x7F) << shift
        if byte < 0x80:
            width_mask = 0xFFFF_FFFF if size_bytes_max == VARINT_BYTES_MAX else 0xFFFF_FFFF_FFFF_FFFF
            encoded &= width_mask
            return (encoded >> 1) ^ -(encoded & 1), position
    raise ValueError(f"an integer of more than {size_bytes_max} bytes")


# Lengths and offset deltas are small as a rule, and there are six of them in each record.
_SMALL = [_encoded_varint(value) for value in range(SMALL_VALUES)]


_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C
_POSITIVE = 0x7FFF_FFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash of the Java client's default partitioner, unsigned."""
    whole = len(key) & ~3
    hashed = _SEED ^ len(key)
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if whole != len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def murmur2_partition(key: bytes, partition_count: int) -> int:
    """The Java client's partition for a key: the hash without its sign bit, modulo the number of partitions."""
    return (murmur2(key) & _POSITIVE) % partition_count


def crc32_partition(key: bytes, partition_count: int) -> int:
    """The partition for a key by librdkafka's partitioner "consistent"."""
    return crc32(key) % partition_count


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
            _encoded_record(record, offset_delta, record.timestamp_ms - base_timestamp_ms)
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


def _encoded_record(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytes:
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
