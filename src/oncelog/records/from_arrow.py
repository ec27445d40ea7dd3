"""Arrow columns to record batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncelog.records.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    seal,
)
from oncelog.records.compression import Codec
from oncelog.records.kernels import ALL_NULL, ALL_VALID, SOME_NULL, BytesColumn, ListColumn, encode_records
from oncelog.records.record import NO_TIMESTAMP

# An Arrow array of any type.
Array = Any
_BODY_BYTES_MAX = 2**31 - 1 - HEADER_BYTES
_NO_BYTES = np.zeros(0, np.uint8)
_NO_INTEGERS = np.zeros(0, np.int64)
_NO_BYTES.flags.writeable = False
_NO_INTEGERS.flags.writeable = False
_ABSENT = BytesColumn(_NO_INTEGERS, _NO_BYTES, _NO_BYTES, 0, ALL_NULL)
_NO_LISTS = ListColumn(_NO_INTEGERS, _NO_BYTES, 0, ALL_NULL)


def arrow_to_batches(
    table: pa.Table | pa.RecordBatch,
    *,
    timestamp_ms: int = NO_TIMESTAMP,
    codec: Codec = Codec.NONE,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> list[bytes]:
    """Encode rows, in their order, as batches without a producer, of at most `batch_bytes_max` bytes before compression.

    Columns: `value` and, if there, `key` (binary or string, also large, view or dictionary), `headers` (a list of
    structs of key and value) and `timestamp` (a timestamp, or milliseconds as an integer). Rows without a timestamp get
    `timestamp_ms`. A record too large for a batch of that size gets a larger one to itself. Other columns are not read.

    Raises ValueError for columns that are not these.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if "value" not in table.column_names:
        raise ValueError("there is no column named value")
    if table.num_rows == 0:
        return []
    keys = _bytes_column(_column(table, "key"), "key")
    values = _bytes_column(_column(table, "value"), "value")
    headers = _headers_columns(_column(table, "headers"))
    timestamps_ms = _timestamps_ms(_column(table, "timestamp"), table.num_rows, timestamp_ms)
    room = batch_bytes_max - HEADER_BYTES
    output = np.empty(min(max(room, 0), _BODY_BYTES_MAX), np.uint8)
    encoded: list[bytes] = []
    row = 0
    while row < table.num_rows:
        next_row, size_bytes, max_timestamp_ms = encode_records(keys, values, *headers, timestamps_ms, row, output)
        if next_row == row:
            if size_bytes > _BODY_BYTES_MAX:
                raise ValueError(f"row {row} takes {size_bytes} bytes, more than a batch can hold")
            larger = np.empty(size_bytes, np.uint8)
            next_row, size_bytes, max_timestamp_ms = encode_records(keys, values, *headers, timestamps_ms, row, larger)
            body = larger.data
        else:
            body = output.data[:size_bytes]
        header = _header(next_row - row, int(timestamps_ms[row]), max_timestamp_ms, codec)
        encoded.append(seal(header, body))
        row = next_row
    return encoded


def _header(record_count: int, base_timestamp_ms: int, max_timestamp_ms: int, codec: Codec) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=record_count - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )


def _column(table: pa.Table, name: str) -> Array | None:
    """One column as one array; None if it is not there."""
    if name not in table.column_names:
        return None
    column: Any = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # The offsets of several chunks together may need 64 bits.
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        column = column.cast(pa.large_binary())
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def _bytes_column(array: Array | None, name: str) -> BytesColumn:
    if array is None or pa.types.is_null(array.type):
        return _ABSENT
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not _is_bytes(array.type):
        raise ValueError(f"the column {name} is of type {array.type}, not of bytes or strings")
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    return BytesColumn(_integers(offsets, array.offset, len(array) + 1), _bytes(data), *_validity(array))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
    )
    return any(test(kind) for test in tests)


def _headers_columns(array: Array | None) -> tuple[ListColumn, BytesColumn, BytesColumn]:
    if array is None or pa.types.is_null(array.type):
        return _NO_LISTS, _ABSENT, _ABSENT
    kind = array.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        raise ValueError(f"the column headers is of type {kind}, not a list of structs")
    items = array.values
    if {field.name for field in items.type} != {"key", "value"}:
        raise ValueError("a header has a key and a value")
    offsets = array.offsets.cast(pa.int64())
    used = items.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())
    header_keys, header_values = items.field("key"), items.field("value")
    if used.null_count or used.field("key").null_count:
        raise ValueError("a header has no key")
    lists = ListColumn(_integers(offsets.buffers()[1], offsets.offset, len(offsets)), *_validity(array))
    return lists, _bytes_column(header_keys, "headers.key"), _bytes_column(header_values, "headers.value")


def _timestamps_ms(array: Array | None, row_count: int, default_ms: int) -> NDArray[np.int64]:
    if array is None or pa.types.is_null(array.type):
        return _read_only(np.full(row_count, default_ms, np.int64))
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    elif not pa.types.is_integer(array.type):
        raise ValueError(f"the column timestamp is of type {array.type}, not a timestamp")
    array = array.cast(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, default_ms)
    return _integers(array.buffers()[1], array.offset, row_count)


def _validity(array: Array) -> tuple[NDArray[np.uint8], int, int]:
    """The validity bitmap, the first bit of the array in it, and whether there are nulls."""
    if array.null_count == 0:
        return _NO_BYTES, 0, ALL_VALID
    if array.null_count == len(array):
        return _NO_BYTES, 0, ALL_NULL
    return _bytes(array.buffers()[0]), array.offset, SOME_NULL


def _integers(buffer: Any, start: int, count: int) -> NDArray[np.int64]:
    return _read_only(np.frombuffer(buffer, np.int64)[start : start + count])


def _bytes(buffer: Any) -> NDArray[np.uint8]:
    if buffer is None:
        return _NO_BYTES
    return _read_only(np.frombuffer(buffer, np.uint8))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array of the one type the kernels are compiled for."""
    view = array.view()
    view.flags.writeable = False
    return view
