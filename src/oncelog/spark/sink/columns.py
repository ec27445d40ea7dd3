"""Which columns of a DataFrame are written, and of which types: those of Spark's Kafka sink."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from oncelog.spark.sink.unwritable import RowError

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
