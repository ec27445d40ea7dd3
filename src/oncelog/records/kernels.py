"""The loops that read and write records column by column, compiled to machine code.

They see raw bytes, so each checks every bound itself: nothing is read past the end of a record, whatever its lengths say.
Positions are int64 everywhere. Compiled code is cached on disk; a directory that cannot be written to costs a compilation
per process, not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
# An int64 of the compiled code, where numpy's annotations see now an int, now a numpy integer.
Int64 = Any
Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Offsets = NDArray[np.int32]

# Columns of the table of batches that `decode_records` reads.
BATCH_POSITION, BATCH_END, BATCH_RECORDS, BATCH_OFFSET, BATCH_TIMESTAMP, BATCH_TIME_IS_FIXED = range(6)
# What has been written so far: the counters that `decode_records` goes on from.
ROWS, KEY_BYTES, VALUE_BYTES, NULL_KEYS, NULL_VALUES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(8)
COUNTERS = 8
# The same for `decode_headers`.
SEEN_HEADERS, SEEN_KEY_BYTES, SEEN_VALUE_BYTES, SEEN_NULL_VALUES = range(4)
HEADER_COUNTERS = 4

ALL_VALID, SOME_NULL, ALL_NULL = range(3)
MALFORMED = -1
_MICROSECONDS_PER_MS = 1000
_MS_MAX = (2**63 - 1) // _MICROSECONDS_PER_MS


class BytesColumn(NamedTuple):
    """A column of byte strings as Arrow holds it: item n is data[offsets[n] : offsets[n + 1]]."""

    offsets: Integers
    data: Bytes
    validity: Bytes
    validity_bit: int
    nulls: int


class ListColumn(NamedTuple):
    """A column of lists: the items of list n are offsets[n] to offsets[n + 1]."""

    offsets: Integers
    validity: Bytes
    validity_bit: int
    nulls: int


class RecordColumns(NamedTuple):
    """The output of `decode_records`. Arrays of offsets have one item more than there are rows, and the first is 0."""

    key_offsets: Offsets
    key_data: Bytes
    key_validity: Bytes
    value_offsets: Offsets
    value_data: Bytes
    value_validity: Bytes
    offsets: Integers
    timestamps_us: Integers
    timestamp_types: Offsets
    header_positions: Integers
    header_offsets: Offsets


class HeaderColumns(NamedTuple):
    """The output of `decode_headers`."""

    key_offsets: Offsets
    key_data: Bytes
    value_offsets: Offsets
    value_data: Bytes
    value_validity: Bytes


# What the signatures are made of. Numba's own annotations cover little of it.
_types: Any = types
_cgutils: Any = cgutils
_INT64 = types.int64
_BOOLEAN = types.boolean
_READ_BYTES = _types.Array(types.uint8, 1, "C", readonly=True)
_READ_INTEGERS = _types.Array(types.int64, 1, "C", readonly=True)
_BYTES = types.uint8[::1]
_INTEGERS = types.int64[::1]
_OFFSETS = types.int32[::1]
_TABLE = types.int64[:, ::1]
_BYTES_COLUMN = _types.NamedTuple((_READ_INTEGERS, _READ_BYTES, _READ_BYTES, _INT64, _INT64), BytesColumn)
_LIST_COLUMN = _types.NamedTuple((_READ_INTEGERS, _READ_BYTES, _INT64, _INT64), ListColumn)
_RECORD_COLUMNS = _types.NamedTuple(
    (_OFFSETS, _BYTES, _BYTES, _OFFSETS, _BYTES, _BYTES, _INTEGERS, _INTEGERS, _OFFSETS, _INTEGERS, _OFFSETS),
    RecordColumns,
)
_HEADER_COLUMNS = _types.NamedTuple((_OFFSETS, _BYTES, _OFFSETS, _BYTES, _BYTES), HeaderColumns)


def _compiled(signature: object) -> Callable[[Function], Function]:
    """Compile for one signature, at import, from the cache where there is one."""

    def compile_function(function: Function) -> Function:
        compiled: Any
        try:
            compiled = njit(signature, cache=True, nogil=True)(function)
        except RuntimeError:
            # Numba found no directory to cache in: an installation that is read-only, and no home directory.
            compiled = njit(signature, nogil=True)(function)
        return cast(Function, compiled)

    return compile_function


def _inlined(function: Function) -> Function:
    """Compile as a part of each caller, which then caches it."""
    compiled: Any = njit(function)
    return cast(Function, compiled)


@_inlined
def _read_varint(source: Bytes, position: Int64, end: Int64) -> tuple[Int64, Int64]:
    """A zigzag integer of up to 32 bits and the position after it, which is MALFORMED when it does not end in time."""
    encoded = np.uint64(0)
    shift = np.uint64(0)
    found = np.int64(MALFORMED)
    stop = min(end, position + 5)
    while position < stop:
        byte = source[position]
        position += 1
        encoded |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            found = position
            break
        shift += np.uint64(7)
    encoded &= np.uint64(0xFFFF_FFFF)
    return np.int64(encoded >> np.uint64(1)) ^ -np.int64(encoded & np.uint64(1)), found


@_inlined
def _read_varlong(source: Bytes, position: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The same for up to 64 bits."""
    encoded = np.uint64(0)
    shift = np.uint64(0)
    found = np.int64(MALFORMED)
    stop = min(end, position + 10)
    while position < stop:
        byte = source[position]
        position += 1
        encoded |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            found = position
            break
        shift += np.uint64(7)
    return np.int64(encoded >> np.uint64(1)) ^ -np.int64(encoded & np.uint64(1)), found


@_inlined
def _read_length(source: Bytes, position: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The length of a byte string that ends before `end`, -1 for null, and the position after the length."""
    length, position = _read_varint(source, position, end)
    if length < -1 or length > end - position:
        position = np.int64(MALFORMED)
    return length, position


@_inlined
def _set_bit(bitmap: Bytes, bit: Int64) -> None:
    bitmap[bit >> 3] |= np.uint8(1 << (bit & 7))


def _copy_typed(
    _context: Any, source: types.Type, position: types.Type, length: types.Type, target: types.Type, start: types.Type
) -> Any:
    """One memcpy: a loop over the bytes takes several times as long for the short strings that records are made of."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source_array, first, count, target_array, start_at = arguments
        read_from = context.make_array(signature.args[0])(context, builder, source_array).data
        write_to = context.make_array(signature.args[3])(context, builder, target_array).data
        _cgutils.raw_memcpy(builder, builder.gep(write_to, [start_at]), builder.gep(read_from, [first]), count, 1)
        return context.get_dummy_value()

    return _types.void(source, types.int64, types.int64, target, types.int64), generate


# _copy(source, position, length, target, start): both ranges must have been checked.
_copy: Any = intrinsic(_copy_typed)


@_compiled(_types.boolean(_READ_BYTES, _TABLE, _INT64, _INT64, _BOOLEAN, _INTEGERS, _RECORD_COLUMNS))
def decode_records(
    source: Bytes,
    table: Integers,
    start_offset: Int64,
    end_offset: Int64,
    with_headers: bool,
    counters: Integers,
    columns: RecordColumns,
) -> bool:
    """Append the records of the batches in `table` whose offset is in [start_offset, end_offset) to the columns.

    The columns have room for every record and byte of those batches. Returns False for a malformed record.
    """
    row = counters[ROWS]
    key_end = counters[KEY_BYTES]
    value_end = counters[VALUE_BYTES]
    for batch in range(table.shape[0]):
        position = table[batch, BATCH_POSITION]
        batch_end = table[batch, BATCH_END]
        base_offset = table[batch, BATCH_OFFSET]
        base_timestamp = table[batch, BATCH_TIMESTAMP]
        time_is_fixed = table[batch, BATCH_TIME_IS_FIXED]
        for _ in range(table[batch, BATCH_RECORDS]):
            length, position = _read_varint(source, position, batch_end)
            if position < 0 or length < 0 or length > batch_end - position:
                return False
            end = position + length
            timestamp_delta, position = _read_varlong(source, position + 1, end)
            if position < 0:
                return False
            offset_delta, position = _read_varint(source, position, end)
            if position < 0:
                return False
            key_length, key_position = _read_length(source, position, end)
            if key_position < 0:
                return False
            value_length, value_position = _read_length(source, key_position + max(key_length, 0), end)
            if value_position < 0:
                return False
            header_position = value_position + max(value_length, 0)
            header_count, position = _read_varint(source, header_position, end)
            if position < 0 or header_count < 0 or header_count > end - position:
                return False
            header_key_bytes = np.int64(0)
            header_value_bytes = np.int64(0)
            for _header in range(header_count):
                length, position = _read_length(source, position, end)
                if position < 0 or length < 0:
                    return False
                header_key_bytes += length
                length, position = _read_length(source, position + length, end)
                if position < 0:
                    return False
                header_value_bytes += max(length, 0)
                position += max(length, 0)
            if position != end:
                return False
            offset = base_offset + offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            if key_length >= 0:
                _copy(source, key_position, key_length, columns.key_data, key_end)
                key_end += key_length
                _set_bit(columns.key_validity, row)
            else:
                counters[NULL_KEYS] += 1
            columns.key_offsets[row + 1] = key_end
            if value_length >= 0:
                _copy(source, value_position, value_length, columns.value_data, value_end)
                value_end += value_length
                _set_bit(columns.value_validity, row)
            else:
                counters[NULL_VALUES] += 1
            columns.value_offsets[row + 1] = value_end
            columns.offsets[row] = offset
            timestamp = base_timestamp if time_is_fixed else base_timestamp + timestamp_delta
            columns.timestamps_us[row] = max(-_MS_MAX, min(_MS_MAX, timestamp)) * _MICROSECONDS_PER_MS
            columns.timestamp_types[row] = time_is_fixed
            if with_headers:
                counters[HEADERS] += header_count
                counters[HEADER_KEY_BYTES] += header_key_bytes
                counters[HEADER_VALUE_BYTES] += header_value_bytes
                columns.header_positions[row] = header_position
                columns.header_offsets[row + 1] = counters[HEADERS]
            row += 1
        if position != batch_end:
            return False
    counters[ROWS] = row
    counters[KEY_BYTES] = key_end
    counters[VALUE_BYTES] = value_end
    return True


@_compiled(_types.boolean(_READ_BYTES, _READ_INTEGERS, _INTEGERS, _HEADER_COLUMNS))
def decode_headers(source: Bytes, positions: Integers, counters: Integers, columns: HeaderColumns) -> bool:
    """Append the headers of the records whose header counts are at `positions`, all seen by `decode_records`."""
    end = np.int64(source.shape[0])
    for index in range(positions.shape[0]):
        count, position = _read_varint(source, positions[index], end)
        for _ in range(count):
            header = counters[SEEN_HEADERS]
            length, position = _read_length(source, position, end)
            if position < 0 or length < 0:
                return False
            _copy(source, position, length, columns.key_data, counters[SEEN_KEY_BYTES])
            counters[SEEN_KEY_BYTES] += length
            columns.key_offsets[header + 1] = counters[SEEN_KEY_BYTES]
            length, position = _read_length(source, position + length, end)
            if position < 0:
                return False
            if length >= 0:
                _copy(source, position, length, columns.value_data, counters[SEEN_VALUE_BYTES])
                counters[SEEN_VALUE_BYTES] += length
                position += length
                _set_bit(columns.value_validity, header)
            else:
                counters[SEEN_NULL_VALUES] += 1
            columns.value_offsets[header + 1] = counters[SEEN_VALUE_BYTES]
            counters[SEEN_HEADERS] += 1
    return True


@_inlined
def _zigzag(value: Int64) -> Int64:
    return np.uint64((value << np.int64(1)) ^ (value >> np.int64(63)))


@_inlined
def _varint_size(value: Int64) -> Int64:
    encoded = _zigzag(value)
    if encoded < np.uint64(0x80):
        return np.int64(1)
    if encoded < np.uint64(0x4000):
        return np.int64(2)
    size = np.int64(3)
    encoded >>= np.uint64(21)
    while encoded:
        encoded >>= np.uint64(7)
        size += 1
    return size


@_inlined
def _write_varint(output: Bytes, position: Int64, value: Int64) -> Int64:
    encoded = _zigzag(value)
    if encoded < np.uint64(0x80):
        output[position] = np.uint8(encoded)
        return position + 1
    while encoded > np.uint64(0x7F):
        output[position] = np.uint8(encoded & np.uint64(0x7F)) | np.uint8(0x80)
        encoded >>= np.uint64(7)
        position += 1
    output[position] = np.uint8(encoded)
    return position + 1


@_inlined
def _is_null(nulls: Int64, validity: Bytes, bit: Int64) -> bool:
    if nulls == ALL_VALID:
        return False
    if nulls == ALL_NULL:
        return True
    return bool((validity[bit >> 3] >> (bit & 7)) & 1 == 0)


@_inlined
def _item_length(column: BytesColumn, index: Int64) -> Int64:
    """The length of one item, -1 for null."""
    if _is_null(column.nulls, column.validity, column.validity_bit + index):
        return np.int64(-1)
    return column.offsets[index + 1] - column.offsets[index]


@_inlined
def _write_item(output: Bytes, position: Int64, column: BytesColumn, index: Int64) -> Int64:
    length = _item_length(column, index)
    position = _write_varint(output, position, length)
    if length > 0:
        _copy(column.data, column.offsets[index], length, output, position)
        position += length
    return position


@_inlined
def _item_size(column: BytesColumn, index: Int64) -> Int64:
    length = _item_length(column, index)
    return _varint_size(length) + max(length, 0)


@_inlined
def _header_range(headers: ListColumn, row: Int64) -> tuple[Int64, Int64]:
    if _is_null(headers.nulls, headers.validity, headers.validity_bit + row):
        return np.int64(0), np.int64(0)
    return headers.offsets[row], headers.offsets[row + 1]


@_compiled(
    _types.UniTuple(_INT64, 3)(
        _BYTES_COLUMN,
        _BYTES_COLUMN,
        _LIST_COLUMN,
        _BYTES_COLUMN,
        _BYTES_COLUMN,
        _READ_INTEGERS,
        _INT64,
        _BYTES,
    )
)
def encode_records(
    keys: BytesColumn,
    values: BytesColumn,
    headers: ListColumn,
    header_keys: BytesColumn,
    header_values: BytesColumn,
    timestamps_ms: Integers,
    first_row: Int64,
    output: Bytes,
) -> tuple[Int64, Int64, Int64]:
    """Write the records of one batch, from `first_row` on, as many as `output` has room for.

    Returns the row after the last one written, the bytes written, and the largest timestamp. When not even the first
    record has room, nothing is written, and the second number is the size it needs.
    """
    room = np.int64(output.shape[0])
    position = np.int64(0)
    base_timestamp = timestamps_ms[first_row]
    max_timestamp = base_timestamp
    row = first_row
    while row < timestamps_ms.shape[0]:
        timestamp_delta = timestamps_ms[row] - base_timestamp
        header, header_end = _header_range(headers, row)
        size = np.int64(1) + _varint_size(timestamp_delta) + _varint_size(row - first_row)
        size += _item_size(keys, row) + _item_size(values, row) + _varint_size(header_end - header)
        for index in range(header, header_end):
            size += _item_size(header_keys, index) + _item_size(header_values, index)
        if size + _varint_size(size) > room - position:
            if row == first_row:
                position = size + _varint_size(size)
            break
        position = _write_varint(output, position, size)
        output[position] = 0
        position = _write_varint(output, position + 1, timestamp_delta)
        position = _write_varint(output, position, row - first_row)
        position = _write_item(output, position, keys, row)
        position = _write_item(output, position, values, row)
        position = _write_varint(output, position, header_end - header)
        for index in range(header, header_end):
            position = _write_item(output, position, header_keys, index)
            position = _write_item(output, position, header_values, index)
        max_timestamp = max(max_timestamp, timestamps_ms[row])
        row += 1
    return row, position, max_timestamp
