"""`<offset>.snapshot`: the producers of a partition as they were when the log ended at that offset.

    0   version i16            1
    2   CRC-32C u32            of everything after it
    6   number of entries i32
   10   entries, 46 bytes each: producer id i64, epoch i16, last sequence i32, last offset i64, offset delta i32,
        timestamp i64, coordinator epoch i32, first offset of the open transaction i64 (-1: none)

Only a producer's last batch is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from oncelog.log.producers import BatchEntry, ProducerStateEntry
from oncelog.records import NO_SEQUENCE, sequence_before
from oncelog.records.checksum import crc32c

VERSION = 1

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_NO_OFFSET = -1


class DamagedSnapshotError(Exception):
    """The bytes are not a snapshot that was written whole."""


def encode_snapshot(producers: Iterable[ProducerStateEntry]) -> bytes:
    entries = [_encode(producer) for producer in producers]
    body = b"".join((_COUNT.pack(len(entries)), *entries))
    return _HEADER.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Raises DamagedSnapshotError."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise DamagedSnapshotError(f"{len(data)} bytes are no snapshot")
    version, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DamagedSnapshotError(f"a snapshot of version {version}")
    body = memoryview(data)[_HEADER.size :]
    if crc32c(body) != crc:
        raise DamagedSnapshotError("the CRC-32C is not that of the bytes")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedSnapshotError(f"{count} entries in {len(body)} bytes")
    return [_decode(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _encode(producer: ProducerStateEntry) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    first_offset = producer.transaction_first_offset
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else _NO_OFFSET,
        last.last_offset - last.first_offset if last else 0,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        _NO_OFFSET if first_offset is None else first_offset,
    )


def _decode(fields: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    producer = ProducerStateEntry(producer_id, epoch)
    producer.last_timestamp_ms = timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_first_offset = None if first_offset < 0 else first_offset
    if last_offset >= 0:
        first_sequence = NO_SEQUENCE if last_sequence < 0 else sequence_before(last_sequence, offset_delta)
        first = last_offset - offset_delta
        producer.batches = (BatchEntry(first_sequence, last_sequence, first, last_offset, timestamp_ms),)
    return producer
