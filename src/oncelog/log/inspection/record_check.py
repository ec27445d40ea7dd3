"""Whether the records in a batch whose checksum is right are records."""

from __future__ import annotations

from oncelog.log.scan import ScannedBatch
from oncelog.records import HEADER_BYTES, RecordsError, decode_batch, read_control
from oncelog.records.batch import check_body


def problem_inside(batch: ScannedBatch, *, has_gaps: bool) -> str | None:
    """What is wrong with the records of a batch; None if nothing is. A batch without records keeps its offsets alone."""
    header = batch.header
    begin = batch.position_in_data
    data = batch.data[begin : begin + header.size_bytes]
    try:
        if header.is_control:
            read_control(data)
        elif header.record_count == 0:
            return None if header.size_bytes == HEADER_BYTES else "a batch without records has bytes for them"
        elif header.record_count == header.last_offset_delta + 1:
            check_body(data, header)
        elif has_gaps:
            return _problem_of_compacted(data, header.base_offset, header.last_offset)
        else:
            return f"{header.record_count} records have {header.last_offset_delta + 1} offsets"
    except RecordsError as error:
        return str(error)
    return None


def _problem_of_compacted(data: bytes, first_offset: int, last_offset: int) -> str | None:
    """Compaction takes records away, and leaves the others where they were."""
    before = first_offset - 1
    for record in decode_batch(data):
        if not before < record.offset <= last_offset:
            return f"a record has offset {record.offset}, behind {before}"
        before = record.offset
    return None
