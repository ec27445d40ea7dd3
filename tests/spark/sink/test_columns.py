"""What a DataFrame has to look like to be written: all of it is said before a task runs."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from oncelog.spark.sink.columns import columns_to_write
from oncelog.spark.sink.unwritable import RowError

KINDS = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "void": NullType(),
    "strings": ArrayType(StringType()),
}


def schema(text):
    """Of "name type, name type"; a list of headers is written `headers[key string,value binary]`."""
    made = StructType()
    for column in re.findall(r"(?:[^,\[]|\[[^]]*\])+", text):
        header = re.fullmatch(r"(\w+)\[(.*)\]", column.strip())
        if header is not None:
            made.add(header[1], ArrayType(schema(header[2])))
        else:
            name, kind = column.split()
            made.add(name, KINDS[kind])
    return made


@pytest.mark.parametrize(
    ("columns", "topic", "written"),
    [
        ("value string", "out", ["value"]),
        ("value binary, key string, partition int", "out", ["key", "value", "partition"]),
        ("topic string, value string", None, ["value", "topic"]),
        ("topic string, value string", "out", ["value"]),
        ("value void, key void, headers void", "out", ["key", "value", "headers"]),
        ("value string, headers[key string,value binary]", "out", ["value", "headers"]),
        ("value string, headers[value string,key binary]", "out", ["value", "headers"]),
    ],
)
def test_the_columns_of_sparks_kafka_sink_are_written(columns, topic, written):
    assert columns_to_write(schema(columns), topic) == written


def test_rows_of_the_source_are_passed_on_as_they_are():
    rows = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert columns_to_write(schema(rows), "out") == ["key", "value", "partition"]


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        ("key string", "out", "no column `value`"),
        ("value string", None, "no topic"),
        ("value int", "out", "column value is of type int, not binary or string"),
        ("value string, partition string", "out", "column partition is of type string, not integer"),
        ("value string, user string, amount int", "out", "column amount, user would not be written.*drop it"),
        ("Value string, value string", "out", "column Value would not be written"),
        ("value string, headers string", "out", "column headers is of type string"),
        ("value string, headers strings", "out", r"array<string>, not array<struct<key:string,value:binary>>"),
        ("value string, headers[name string,value binary]", "out", "name:string"),
        ("value string, headers[key string]", "out", "headers"),
        ("value string, headers[key int,value binary]", "out", "key:int"),
        ("value string, headers[key string,value int]", "out", "value:int"),
    ],
)
def test_any_other_column_is_refused_in_a_sentence(columns, topic, words):
    with pytest.raises(RowError, match=words):
        columns_to_write(schema(columns), topic)


def test_column_that_is_there_twice_is_refused():
    """As a join leaves it: which of the two is meant, nobody says."""
    with pytest.raises(RowError, match="column value is there twice, and a record has one: rename or drop the other"):
        columns_to_write(schema("key string, value string, value binary"), "t")
    assert columns_to_write(schema("value string, offset bigint, offset bigint"), "t") == ["value"]
