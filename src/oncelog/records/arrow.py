"""Record batches to Arrow, in the row schema of Spark's Kafka source. No record becomes a Python object on the way.

Needs the extra [spark]. An import loads Numba: the loops are in `oncelog.records.kernels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import Buffer

from oncelog.records.arrow_arrays import integer_array, repeated_text
from oncelog.records.batch import HEADER_BYTES, MAGIC, BatchHeader, TimestampType, batches, crc_is_valid
from oncelog.records.compression import Codec, decompress
from oncelog.records.control import AbortedFilter
from oncelog.records.kernels import (
    COUNTERS,
    HEADER_COUNTERS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    NULL_KEYS,
    NULL_VALUES,
    ROWS,
    SEEN_NULL_VALUES,
    HeaderColumns,
    RecordColumns,
    decode_headers,
    decode_records,
)
from oncelog.records.record import RECORD_BYTES_MIN, CorruptBatchError

# How many bytes of records become one Arrow record batch, unless a single batch of the log holds more: few enough that
# the memory of the last one is there for the next.
ARROW_BATCH_BYTES_MAX = 8 * 1024 * 1024

# An Arrow array of any type.
Array = Any
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")


@cache
def record_schema(include_headers: bool) -> pa.Schema:
    """The columns of `batches_to_arrow`, which are those of Spark's Kafka source."""
    fields: list[Any] = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", _TIMESTAMP_TYPE),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        fields.append(pa.field("headers", HEADERS_TYPE))
    return pa.schema(fields)


def batches_to_arrow(
    chunks: Sequence[Buffer],
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    aborted: Iterable[tuple[int, int]] = (),
    *,
    include_headers: bool = False,
    read_committed: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The records with offsets in [start_offset, end_offset) of one Fetch answer, in the log's order.

    Control batches are left out and so are, with `read_committed`, the batches of the transactions in `aborted`, the
    answer's list of (producer id, first offset). A batch that is cut short at the end of a chunk is left out. Each
    Arrow batch holds at least one record; there are none if no record is left.

    Iterating raises CorruptBatchError or UnsupportedCompressionError.
    """
    selected = _selected(chunks, start_offset, end_offset, AbortedFilter(aborted if read_committed else ()))
    for group in _groups(selected):
        decoded = _decoded(group, start_offset, end_offset, include_headers)
        if decoded.row_count:
            yield _record_batch(decoded, topic, partition)


def _selected(
    chunks: Sequence[Buffer], start_offset: int, end_offset: int, aborted: AbortedFilter
) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """The batches to decode, each as (chunk, position, header), with their CRC checked."""
    for chunk in chunks:
        for position, header in batches(chunk):
            if header.magic != MAGIC:
                raise CorruptBatchError(f"a batch of format {header.magic}, not {MAGIC}")
            if aborted.drops(chunk, position, header) or header.is_control:
                continue
            if header.last_offset < start_offset or header.base_offset >= end_offset:
                continue
            if not crc_is_valid(chunk, position, header):
                raise CorruptBatchError(f"the batch at offset {header.base_offset} is not the one that was written")
            yield chunk, position, header


@dataclass(slots=True)
class _Source:
    """Bytes in which records lie, and the rows of the kernel's table that say where."""

    data: Buffer
    table: list[tuple[int, ...]]


@dataclass(slots=True)
class _Group:
    """The batches that become one Arrow batch."""

    sources: list[_Source]
    record_count: int = 0
    size_bytes: int = 0


def _groups(selected: Iterable[tuple[Buffer, int, BatchHeader]]) -> Iterator[_Group]:
    group = _Group([])
    for chunk, position, header in selected:
        if header.codec is Codec.NONE:
            data, start, end = chunk, position + HEADER_BYTES, position + header.size_bytes
        else:
            packed = memoryview(chunk)[position + HEADER_BYTES : position + header.size_bytes]
            data = decompress(header.codec, packed)
            start, end = 0, len(data)
        if header.record_count < 0 or header.record_count * RECORD_BYTES_MIN > end - start:
            raise CorruptBatchError(f"{end - start} bytes cannot hold {header.record_count} records")
        if group.sources and group.size_bytes + end - start > ARROW_BATCH_BYTES_MAX:
            yield group
            group = _Group([])
        if not group.sources or group.sources[-1].data is not data:
            group.sources.append(_Source(data, []))
        group.sources[-1].table.append(_table_row(header, start, end))
        group.record_count += header.record_count
        group.size_bytes += end - start
    if group.sources:
        yield group


def _table_row(header: BatchHeader, start: int, end: int) -> tuple[int, ...]:
    """One batch for `decode_records`, in the order of the table's columns."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return start, end, header.record_count, header.base_offset, header.max_timestamp_ms, 1
    return start, end, header.record_count, header.base_offset, header.base_timestamp_ms, 0


@dataclass(slots=True)
class _Decoded:
    """The columns of one Arrow batch, and how much of them is filled."""

    columns: RecordColumns
    counters: NDArray[np.int64]
    headers: Array | None

    @property
    def row_count(self) -> int:
        return int(self.counters[ROWS])


def _decoded(group: _Group, start_offset: int, end_offset: int, include_headers: bool) -> _Decoded:
    columns = _empty_columns(group.record_count, group.size_bytes, include_headers)
    counters = np.zeros(COUNTERS, np.int64)
    header_sources: list[tuple[NDArray[np.uint8], int, int]] = []
    for source in group.sources:
        data = np.frombuffer(memoryview(source.data), np.uint8)
        table = np.array(source.table, np.int64)
        first_row = int(counters[ROWS])
        if not decode_records(data, table, start_offset, end_offset, include_headers, counters, columns):
            raise CorruptBatchError(f"a malformed record after offset {source.table[0][3]}")
        header_sources.append((data, first_row, int(counters[ROWS])))
    headers = _headers_array(header_sources, columns, counters) if include_headers else None
    return _Decoded(columns, counters, headers)


def _empty_columns(record_count: int, size_bytes: int, include_headers: bool) -> RecordColumns:
    """Room for all the records. Memory that no key or value is written to is never touched, and so costs nothing."""
    header_rows = record_count if include_headers else 0
    return RecordColumns(
        key_offsets=_empty_offsets(record_count),
        key_data=np.empty(size_bytes, np.uint8),
        key_validity=_empty_bitmap(record_count),
        value_offsets=_empty_offsets(record_count),
        value_data=np.empty(size_bytes, np.uint8),
        value_validity=_empty_bitmap(record_count),
        offsets=np.empty(record_count, np.int64),
        timestamps_us=np.empty(record_count, np.int64),
        timestamp_types=np.empty(record_count, np.int32),
        header_positions=np.empty(header_rows, np.int64),
        header_offsets=_empty_offsets(header_rows),
    )


def _empty_offsets(item_count: int) -> NDArray[np.int32]:
    offsets = np.empty(item_count + 1, np.int32)
    offsets[0] = 0
    return offsets


def _empty_bitmap(item_count: int) -> NDArray[np.uint8]:
    return np.zeros((item_count + 7) // 8, np.uint8)


def _record_batch(decoded: _Decoded, topic: str, partition: int) -> pa.RecordBatch:
    columns, counters, rows = decoded.columns, decoded.counters, decoded.row_count
    arrays = [
        _bytes_array(columns.key_offsets, columns.key_data, columns.key_validity, rows, int(counters[NULL_KEYS])),
        _bytes_array(
            columns.value_offsets, columns.value_data, columns.value_validity, rows, int(counters[NULL_VALUES])
        ),
        repeated_text(topic, rows),
        integer_array(np.full(rows, partition, np.int32), pa.int32()),
        integer_array(columns.offsets[:rows], pa.int64()),
        pa.Array.from_buffers(_TIMESTAMP_TYPE, rows, [None, _buffer(columns.timestamps_us[:rows])], 0),
        integer_array(columns.timestamp_types[:rows], pa.int32()),
    ]
    if decoded.headers is not None:
        arrays.append(decoded.headers)
    return pa.RecordBatch.from_arrays(arrays, schema=record_schema(decoded.headers is not None))


def _buffer(array: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(array.data)


def _bytes_array(
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
    validity: NDArray[np.uint8],
    item_count: int,
    null_count: int,
    kind: pa.DataType | None = None,
) -> Array:
    buffers = [
        _buffer(validity) if null_count else None,
        _buffer(offsets[: item_count + 1]),
        _buffer(data[: offsets[item_count]]),
    ]
    return pa.Array.from_buffers(kind or pa.binary(), item_count, buffers, null_count)


def _headers_array(
    sources: list[tuple[NDArray[np.uint8], int, int]], columns: RecordColumns, counters: NDArray[np.int64]
) -> Array:
    """The column of headers; a record without any has null, as in Spark's Kafka source."""
    header_count = int(counters[HEADERS])
    found = HeaderColumns(
        key_offsets=_empty_offsets(header_count),
        key_data=np.empty(int(counters[HEADER_KEY_BYTES]), np.uint8),
        value_offsets=_empty_offsets(header_count),
        value_data=np.empty(int(counters[HEADER_VALUE_BYTES]), np.uint8),
        value_validity=_empty_bitmap(header_count),
    )
    seen = np.zeros(HEADER_COUNTERS, np.int64)
    for data, first_row, end_row in sources:
        if not decode_headers(data, columns.header_positions[first_row:end_row], seen, found):
            raise CorruptBatchError("a malformed header")
    keys = _text_array(found.key_offsets, found.key_data, header_count)
    values = _bytes_array(
        found.value_offsets, found.value_data, found.value_validity, header_count, int(seen[SEEN_NULL_VALUES])
    )
    rows = int(counters[ROWS])
    offsets = columns.header_offsets[: rows + 1]
    has_headers = np.diff(offsets) > 0
    validity = _buffer(np.packbits(has_headers, bitorder="little"))
    items = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    null_count = rows - int(has_headers.sum())
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [validity, _buffer(offsets)], null_count, children=[items])


def _text_array(offsets: NDArray[np.int32], data: NDArray[np.uint8], item_count: int) -> Array:
    """Strings, in which bytes that are not UTF-8 are replaced: Arrow takes them at their word."""
    text = _bytes_array(offsets, data, data[:0], item_count, 0, pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        keys = _bytes_array(offsets, data, data[:0], item_count, 0).to_pylist()
        return pa.array([key.decode("utf-8", "replace") for key in keys], pa.string())
    return text
