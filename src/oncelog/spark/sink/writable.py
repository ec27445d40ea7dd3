"""The columns that can be written, those of Spark's Kafka sink, and the treatment of records that cannot be written.

Unwritable records are found while rows are encoded, before the transaction begins. A broker that refuses a record after that
ends the write, whatever the policy is: nobody knows which of a batch's records it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from oncelog.records.arrow_arrays import integer_array

BYTES = (BinaryType, StringType)
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": (*BYTES, NullType),
    "value": (*BYTES, NullType),
    "headers": (ArrayType, NullType),
    "topic": (StringType,),
    "partition": (IntegerType,),
}
"""The columns that are written, and their types."""

PASSED_OVER = frozenset({"offset", "timestamp", "timestampType"})
"""Columns of the source that a record gets anew when it is written. Rows that are passed on have them."""

HEADERS = "array<struct<key:string,value:binary>>"


def columns_to_write(schema: StructType, topic: str | None) -> list[str]:
    """The columns of the DataFrame that go to the log.

    Raises RowError for columns that are missing, of a wrong type, or written nowhere.
    """
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, allowed in COLUMNS.items():
        if schema.names.count(name) > 1:
            raise RowError(f"column {name} is there twice, and a record has one: rename or drop the other")
        if name in kinds and not isinstance(kinds[name], allowed):
            names = " or ".join(kind.typeName() for kind in allowed if kind is not NullType)
            raise RowError(f"column {name} is of type {kinds[name].simpleString()}, not {names}")
    if "value" not in kinds:
        raise RowError("the DataFrame has no column `value`, of type string or binary")
    if topic is None and "topic" not in kinds:
        raise RowError("no topic: give the sink topic=..., or the DataFrame a column `topic`")
    if not _are_headers(kinds.get("headers", NullType())):
        raise RowError(f"column headers is of type {kinds['headers'].simpleString()}, not {HEADERS}")
    strangers = sorted(kinds.keys() - COLUMNS.keys() - PASSED_OVER)
    if strangers:
        raise RowError(
            f"column {', '.join(strangers)} would not be written: a record has key, value, headers, topic and partition. "
            "Put it into one of them, or drop it"
        )
    return [name for name in COLUMNS if name in kinds and not (name == "topic" and topic is not None)]


def _are_headers(kind: DataType) -> bool:
    if isinstance(kind, NullType):
        return True
    header = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(header, StructType):
        return False
    kinds = {field.name: field.dataType for field in header.fields}
    return (
        kinds.keys() == {"key", "value"}
        and isinstance(kinds["key"], BYTES)
        and isinstance(kinds["value"], (*BYTES, NullType))
    )


REASON_HEADER = "oncelog.error.reason"
TOPIC_HEADER = "oncelog.error.topic"
PARTITION_HEADER = "oncelog.error.partition"

BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21
"""Overheads in the upper bound that the Java producer compares with max.request.size (DefaultRecord.MAX_RECORD_OVERHEAD)."""

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class RowError(ValueError):
    """A record cannot be written, or the DataFrame lacks what it needs."""


class Policy(Enum):
    """The treatment of records that cannot be written."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class Reason(Enum):
    """The reason why a record cannot be written."""

    NO_TOPIC = "no-topic"
    UNKNOWN_TOPIC = "unknown-topic"
    REFUSED_TOPIC = "refused-topic"
    UNKNOWN_PARTITION = "unknown-partition"
    TOO_LARGE = "too-large"


@dataclass(frozen=True, slots=True)
class Unwritable:
    """Rows of a table that cannot be written to one topic, for one reason. `sentence` says it of the first of them."""

    rows: NDArray[np.int64]
    reason: Reason
    topic: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of cluster and user: the largest batch of each topic where it is known, the topics that this user may not
    write, and the largest record as the Java producer counts it, None for any size.
    """

    batch_bytes_max: Mapping[str, int] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    request_bytes_max: int | None = None


NO_TOPIC_SENTENCE = "a row has no topic: give the sink topic=..., or fill the column"


def unknown_sentence(topic: str) -> str:
    return f"a row is for topic {topic!r}, which does not exist"


def refused_sentence(topic: str) -> str:
    return f"topic {topic!r} may not be written by this user; the right that is missing: Write on topic {topic}"


def outside_sentence(topic: str, partition: int, partition_count: int) -> str:
    return f"a row is for partition {partition} of topic {topic!r}, which has partitions 0 to {partition_count - 1}"


def too_large_sentence(topic: str, size_bytes: int, name: str, limit_bytes: int) -> str:
    return (
        f"a record for topic {topic!r} takes {size_bytes} bytes, and {name} is {limit_bytes}: raise that limit, or say "
        "with `unwritable` what becomes of such records"
    )


def size_bounds(table: pa.Table) -> NDArray[np.int64]:
    """The upper bound on each row's size as the only record of a batch, without compression, as the Java producer has it."""
    bounds = np.full(table.num_rows, BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES, np.int64)
    bounds += _field_bytes(table, "key") + _field_bytes(table, "value")
    return bounds + _headers_bytes(table)


def _field_bytes(table: pa.Table, name: str) -> NDArray[np.int64]:
    if name not in table.column_names or pa.types.is_null(table.column(name).type):
        return np.ones(table.num_rows, np.int64)
    return _sized(table.column(name).combine_chunks())


def _sized(array: Any) -> NDArray[np.int64]:
    """The bytes of values and of their lengths; a missing value takes the one byte of its length."""
    lengths = np.asarray(pc.fill_null(pc.binary_length(array), 0), np.int64)
    return lengths + _varint_bytes(lengths)


def _varint_bytes(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bytes of a length, zigzag-encoded, with 7 bits in each."""
    sizes = np.ones(len(lengths), np.int64)
    for bits in (6, 13, 20, 27):
        sizes += lengths >= 1 << bits
    return sizes


def _headers_bytes(table: pa.Table) -> NDArray[np.int64]:
    if "headers" not in table.column_names or pa.types.is_null(table.column("headers").type):
        return np.ones(table.num_rows, np.int64)
    headers = table.column("headers").combine_chunks()
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0), np.int64)
    items = headers.flatten()
    per_item = _sized(items.field("key"))
    values = items.field("value")
    per_item = per_item + (np.ones(len(items), np.int64) if pa.types.is_null(values.type) else _sized(values))
    rows = np.asarray(pc.list_parent_indices(headers), np.int64)
    return _varint_bytes(counts) + np.bincount(rows, per_item, minlength=table.num_rows).astype(np.int64)


def dead_letters(table: pa.Table, found: Unwritable) -> pa.Table:
    """The rows as records for the dead-letter topic: as they are, with headers for their target and the reason."""
    rows = table.take(integer_array(found.rows, pa.int64()))
    told = rows.column("partition").to_pylist() if "partition" in rows.column_names else [None] * rows.num_rows
    before = rows.column("headers").to_pylist() if "headers" in rows.column_names else [None] * rows.num_rows
    headers = [
        [*(_header(item["key"], item["value"]) for item in own or ()), *_error_headers(found, partition)]
        for own, partition in zip(before, told, strict=True)
    ]
    kept = rows.select([name for name in ("key", "value") if name in rows.column_names])
    return kept.append_column("headers", pa.array(headers, HEADERS_TYPE))


def _error_headers(found: Unwritable, partition: int | None) -> list[dict[str, Any]]:
    headers = [_header(REASON_HEADER, found.reason.value.encode())]
    if found.topic is not None:
        headers.append(_header(TOPIC_HEADER, found.topic.encode()))
    if partition is not None:
        headers.append(_header(PARTITION_HEADER, str(partition).encode()))
    return headers


def _header(key: Any, value: Any) -> dict[str, Any]:
    return {
        "key": key.decode() if isinstance(key, bytes) else key,
        "value": value.encode() if isinstance(value, str) else value,
    }
