"""Rows of the files of a log: segments, indexes, snapshots, checkpoints, the journal, the write-ahead log."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from struct import Struct

from oncelog.broker.storage.journal import decode_line
from oncelog.cli.tables import setting_value
from oncelog.environment import Disk
from oncelog.log import uuid_text
from oncelog.log.checkpoints import read_epoch_starts, read_identity, read_partition_offsets, read_topic_id
from oncelog.log.config import LONG_MAX
from oncelog.log.inspection.read_only_disk import lines_of
from oncelog.log.inspection.walk import Damage, SegmentWalk
from oncelog.log.names import LOG, OFFSET_INDEX, TIME_INDEX, offset_of
from oncelog.log.producer_snapshots import DamagedSnapshotError, decode_snapshot
from oncelog.log.scan import ScannedBatch
from oncelog.log.write_ahead import read_entries
from oncelog.records import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    RecordsError,
    TimestampType,
    UnsupportedCompressionError,
    decode_batch,
    next_sequence,
    read_control,
)

Row = dict[str, object]
Decoder = Callable[[Record], Row]

CHUNK_BYTES = 48 * 1024
"""A multiple of the size of an offset index's entries; the other indexes are read in the same way."""
_OFFSET_ENTRY, _TIME_ENTRY, _TRANSACTION_ENTRY = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")


def segment_rows(disk: Disk, path: str, *, with_records: bool, decoder: Decoder | None = None) -> Iterator[Row]:
    """A row for each batch; those of its records follow it, if they are asked for or `decoder` reads them.

    Bytes that are no batch are a row too, and what is behind them is shown.
    """
    base_offset = _base_offset(path, LOG)
    file = disk.open(path)
    try:
        for found in SegmentWalk(file, base_offset, gaps_below=LONG_MAX):
            if isinstance(found, Damage):
                yield _damage_row(found)
                continue
            yield _batch_row(found)
            if with_records or decoder is not None:
                yield from _record_rows(found, decoder)
    finally:
        file.close()


def _damage_row(damage: Damage) -> Row:
    return {
        "kind": "damage",
        "position": damage.position,
        "size_bytes": damage.size_bytes,
        "expected_offset": damage.first_offset,
        "reason": damage.reason,
    }


def _batch_row(batch: ScannedBatch) -> Row:
    header = batch.header
    row: Row = {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": batch.position,
        "size_bytes": header.size_bytes,
        "codec": _codec(header),
        "timestamp_type": "LogAppendTime" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime",
        "max_timestamp_ms": header.max_timestamp_ms,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "crc": header.crc,
    }
    if header.is_control:
        row |= _marker(batch)
    return row


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except UnsupportedCompressionError:
        return "unknown"


def _marker(batch: ScannedBatch) -> Row:
    try:
        marker = read_control(batch.data, batch.position_in_data)
    except RecordsError as error:
        return {"control": "unreadable", "problem": str(error)}
    if marker is None:
        return {"control": "other"}
    return {"control": marker.control.name, "coordinator_epoch": marker.coordinator_epoch}


def _record_rows(batch: ScannedBatch, decoder: Decoder | None) -> Iterator[Row]:
    if batch.header.is_control:
        return
    try:
        records = decode_batch(batch.data, batch.position_in_data)
    except RecordsError as error:
        yield {"kind": "damage", "position": batch.position, "reason": str(error)}
        return
    for record in records:
        row: Row = {"kind": "record", "offset": record.offset, "timestamp_ms": record.timestamp_ms}
        if decoder is not None:
            yield row | decoder(record)
            continue
        row |= _sequence(batch.header, record)
        row |= _content("key", record.key) | _content("value", record.value)
        if record.headers:
            row["headers"] = [{"key": key, **_content("value", value)} for key, value in record.headers]
        yield row


def _sequence(header: BatchHeader, record: Record) -> Row:
    """The place of a record among those of its producer. A cleaned batch keeps the sequences of those that are left."""
    if header.producer_id == NO_PRODUCER_ID:
        return {}
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = next_sequence(sequence, record.offset - header.base_offset)
    return {"producer_id": header.producer_id, "producer_epoch": header.producer_epoch, "sequence": sequence}


def _content(name: str, data: bytes | None) -> Row:
    """Text as text, and bytes that are none in base64."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def offset_index_rows(disk: Disk, path: str) -> Iterator[Row]:
    base_offset = _base_offset(path, OFFSET_INDEX)
    for offset, position in _entries(disk, path, _OFFSET_ENTRY):
        yield {"kind": "index entry", "offset": base_offset + offset, "position": position}


def time_index_rows(disk: Disk, path: str) -> Iterator[Row]:
    base_offset = _base_offset(path, TIME_INDEX)
    for timestamp_ms, offset in _entries(disk, path, _TIME_ENTRY):
        yield {"kind": "time index entry", "timestamp_ms": timestamp_ms, "offset": base_offset + offset}


def transaction_index_rows(disk: Disk, path: str) -> Iterator[Row]:
    for version, producer_id, first_offset, last_offset, last_stable_offset in _entries(disk, path, _TRANSACTION_ENTRY):
        yield {
            "kind": "aborted transaction",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }


def snapshot_rows(disk: Disk, path: str) -> Iterator[Row]:
    try:
        producers = decode_snapshot(disk.read_file(path))
    except DamagedSnapshotError as error:
        yield {"kind": "damage", "reason": str(error)}
        return
    for producer in producers:
        last = producer.batches[-1] if producer.batches else None
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "last_timestamp_ms": producer.last_timestamp_ms,
            "last_sequence": producer.last_sequence,
            "first_offset": None if last is None else last.first_offset,
            "last_offset": None if last is None else last.last_offset,
            "transaction_first_offset": producer.transaction_first_offset,
        }


def epoch_rows(disk: Disk, path: str) -> Iterator[Row]:
    for start in read_epoch_starts(disk, path):
        yield {"kind": "leader epoch", "leader_epoch": start.epoch, "start_offset": start.start_offset}


def _base_offset(path: str, suffix: str) -> int:
    return offset_of(path.rpartition("/")[2], suffix) or 0


def _entries(disk: Disk, path: str, entry: Struct) -> Iterator[tuple[int, ...]]:
    """The whole entries of a file, a piece of it at a time."""
    file = disk.open(path)
    size_bytes = CHUNK_BYTES - CHUNK_BYTES % entry.size
    try:
        for position in range(0, file.size_bytes, size_bytes):
            data = file.read(position, size_bytes)
            yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])
    finally:
        file.close()


def journal_rows(disk: Disk, path: str) -> Iterator[Row]:
    """A row for each record. Values of settings that are passwords are hidden."""
    for line in lines_of(disk, path):
        record = decode_line(line.data) if line.is_whole else None
        if record is None:
            yield {
                "kind": "damage",
                "position": line.position,
                "size_bytes": len(line.data),
                "reason": "no whole record",
            }
            continue
        fields = record._asdict()
        if "configs" in fields:
            fields["configs"] = {name: setting_value(name, value) for name, value in fields["configs"].items()}
        yield {"kind": type(record).__name__, "position": line.position, **fields}


def write_ahead_rows(disk: Disk, path: str) -> Iterator[Row]:
    """A row for each entry; one without data vouches for the partition up to its log end offset, or cuts it off there."""
    data = disk.read_file(path)
    entries, end = read_entries(data, None)
    for entry in entries:
        yield {
            "kind": "cut" if entry.takes_back else "entry",
            "topic_id": uuid_text(entry.topic_id),
            "partition": entry.partition,
            "log_end_offset": entry.log_end_offset,
            "segment_base_offset": entry.tail.segment_base_offset,
            "position": entry.end_position if entry.takes_back else entry.tail.position,
            "size_bytes": len(entry.tail.data),
        }
    if end < len(data):
        yield {"kind": "damage", "position": end, "size_bytes": len(data) - end, "reason": "no whole entry"}


def checkpoint_rows(disk: Disk, path: str) -> Iterator[Row]:
    for (topic, partition), offset in read_partition_offsets(disk, path).items():
        yield {"kind": "checkpoint", "topic": topic, "partition": partition, "offset": offset}


def identity_rows(disk: Disk, path: str) -> Iterator[Row]:
    yield {"kind": "node", **read_identity(disk, path)._asdict()}


def topic_rows(disk: Disk, path: str) -> Iterator[Row]:
    yield {"kind": "topic", "topic_id": uuid_text(read_topic_id(disk, path))}
