"""Record batches that no producer would write."""

from __future__ import annotations

import struct

from oncelog.records import HEADER_BYTES, Record, build_batch, read_header
from oncelog.records.checksum import crc32c


def resealed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and the CRC that belongs to them."""
    header = read_header(batch)._replace(**fields)
    checked = struct.pack(">hiqqqhii", *header[5:]) + batch[HEADER_BYTES:]
    return struct.pack(">qiibI", *header[:4], crc32c(checked)) + checked


def with_body(body: bytes, record_count: int) -> bytes:
    """A batch, right in its header, whose records are `body`."""
    batch = build_batch([Record(None, None)])[:HEADER_BYTES] + body
    return resealed(batch, batch_length=len(batch) - 12, record_count=record_count, last_offset_delta=record_count - 1)
