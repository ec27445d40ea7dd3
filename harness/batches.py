"""Record batches that no producer would write."""

from __future__ import annotations

import struct

from oncelog.records import HEADER_BYTES, Record, build_batch, crc32c, read_header
from oncelog.records.inside import check_records
from oncelog.records.record import InvalidRecordError, decode_records


def resealed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and the CRC that belongs to them."""
    header = read_header(batch)._replace(**fields)
    checked = struct.pack(">hiqqqhii", *header[5:]) + batch[HEADER_BYTES:]
    return struct.pack(">qiibI", *header[:4], crc32c(checked)) + checked


def with_body(body: bytes, record_count: int) -> bytes:
    """A batch, right in its header, whose records are `body`."""
    batch = build_batch([Record(None, None)])[:HEADER_BYTES] + body
    return resealed(batch, batch_length=len(batch) - 12, record_count=record_count, last_offset_delta=record_count - 1)


def passes(body: bytes, count: int) -> bool:
    """Whether records that a client produces are let through."""
    try:
        check_records(body, 0, count)
    except InvalidRecordError:
        return False
    return True


def can_be_read(body: bytes, count: int) -> bool:
    """Whether somebody who reads each of these records finds as many, with offset deltas that count from 0."""
    try:
        records = decode_records(body, count, base_offset=0, base_timestamp_ms=0, log_append_time_ms=None)
    except (IndexError, ValueError):
        return False
    return [one.offset for one in records] == list(range(count))
