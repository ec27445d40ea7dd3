"""What a DataFrame has to look like to be written: all of it is said before a task runs."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from oncelog.client.values import TopicPartition
from oncelog.records import Codec, decode_batch
from oncelog.spark.sink.batch_write import record_partitions, write_entries
from oncelog.spark.sink.encoding import GROUP_BYTES, PROBLEM, UNWRITABLE, RowEncoder, Targets
from oncelog.spark.sink.writable import Limits, Policy, RowError, columns_to_write, size_bounds

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


TARGETS = Targets((TopicPartition("dead", 0), *(TopicPartition("out", number) for number in range(2))))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TEXT = st.none() | st.binary(max_size=200)


def encoder(policy=Policy.SKIP, topic="out", codec=Codec.NONE, **limits):
    dead = "dead" if policy is Policy.DEAD_LETTER else None
    return RowEncoder(topic, TARGETS, codec, 100_000, 0, Limits(**limits), policy, dead)


def encoded(how, table):
    """(topic to its records, the count of what could not be written)"""
    (group,) = how.encode([table], 0)
    found = {}
    for batch in group.batches:
        found.setdefault(TARGETS.partitions[batch.target].topic, []).extend(decode_batch(bytes(batch.data)))
    return found, group.unwritable


def values(records):
    return sorted(record.value for record in records)


def rows(**columns):
    return pa.RecordBatch.from_pydict(columns)


MIXED = rows(
    value=[b"fits", b"x" * 3000, b"nowhere", b"outside", b"no topic"],
    topic=["out", "out", "gone", "out", None],
    partition=pa.array([0, 1, None, 7, None], pa.int32()),
)


@pytest.mark.parametrize("limits", [{"batch_bytes_max": {"out": 2000}}, {"request_bytes_max": 2000}])
def test_what_cannot_be_written_is_left_out_and_counted(limits):
    found, unwritable = encoded(encoder(topic=None, **limits), MIXED)
    assert {topic: values(records) for topic, records in found.items()} == {"out": [b"fits"]}
    assert unwritable == 4


@pytest.mark.parametrize("limits", [{"batch_bytes_max": {"out": 2000}}, {"request_bytes_max": 2000}])
def test_it_goes_to_the_dead_letter_topic_with_where_and_why(limits):
    found, unwritable = encoded(encoder(Policy.DEAD_LETTER, topic=None, **limits), MIXED)
    assert values(found["out"]) == [b"fits"]
    told = {record.value: {key: value.decode() for key, value in record.headers} for record in found["dead"]}
    assert told == {
        b"x" * 3000: {
            "oncelog.error.reason": "too-large",
            "oncelog.error.topic": "out",
            "oncelog.error.partition": "1",
        },
        b"nowhere": {"oncelog.error.reason": "unknown-topic", "oncelog.error.topic": "gone"},
        b"outside": {
            "oncelog.error.reason": "unknown-partition",
            "oncelog.error.topic": "out",
            "oncelog.error.partition": "7",
        },
        b"no topic": {"oncelog.error.reason": "no-topic"},
    }
    assert unwritable == 4


def test_own_headers_and_keys_stay():
    table = rows(
        key=["k"],
        value=["x" * 500],
        headers=pa.array([[{"key": "h", "value": b"1"}, {"key": "n", "value": None}]], HEADERS),
    )
    found, _ = encoded(encoder(Policy.DEAD_LETTER, request_bytes_max=300), table)
    (record,) = found["dead"]
    assert record.key == b"k"
    assert record.headers[:2] == (("h", b"1"), ("n", None))


def test_a_topic_that_refuses_this_user_is_found_before_the_transaction():
    found, unwritable = encoded(encoder(topic=None, refused=frozenset({"out"})), rows(value=["1"], topic=["out"]))
    assert (found, unwritable) == ({}, 1)
    with pytest.raises(RowError, match="the right that is missing: Write on topic"):
        encoded(encoder(Policy.FAIL, refused=frozenset({"out"})), rows(value=["1"]))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"batch_bytes_max": {"out": 2000}}, r"takes 30\d\d bytes, and the topic's max.message.bytes is 2000"),
        ({"request_bytes_max": 2000}, r"takes 30\d\d bytes, and max.request.size is 2000"),
    ],
)
def test_unless_told_otherwise_nothing_is_written(limits, words):
    with pytest.raises(RowError, match=words):
        encoded(encoder(Policy.FAIL, **limits), rows(value=[b"fits", b"x" * 3000]))


def test_a_record_that_the_dead_letter_topic_cannot_take_either_fails():
    limits = {"batch_bytes_max": {"out": 1000, "dead": 2000}}
    with pytest.raises(RowError, match="'dead' takes 3"):
        encoded(encoder(Policy.DEAD_LETTER, **limits), rows(value=[b"x" * 3000]))


def test_small_records_share_batches_up_to_the_topics_limit():
    (group,) = encoder(batch_bytes_max={"out": 1000}).encode([rows(value=[b"x" * 100] * 100)], 0)
    assert group.unwritable == 0
    assert sum(batch.records for batch in group.batches) == 100
    assert max(len(batch.data) for batch in group.batches) <= 1000
    assert len(group.batches) < 20


def test_a_record_that_compression_makes_small_enough_is_written():
    how = encoder(Policy.FAIL, codec=Codec.GZIP, batch_bytes_max={"out": 1000})
    found, unwritable = encoded(how, rows(value=[b"x" * 50_000]))
    assert (len(found["out"]), unwritable) == (1, 0)


def test_a_task_returns_its_problem_and_reads_its_rows_to_the_end():
    unread = iter([rows(value=[b"x" * 3000]), rows(value=[b"1"])])
    (returned,) = encoder(Policy.FAIL, request_bytes_max=2000).encoded_rows(unread, 3)
    assert returned.column("target").to_pylist() == [PROBLEM]
    assert b"max.request.size" in returned.column("batch")[0].as_py()
    assert list(unread) == []


def test_a_task_returns_how_many_it_left_out():
    (returned,) = encoder(request_bytes_max=2000).encoded_rows([rows(value=[b"x" * 3000, b"1", b"x" * 4000])], 0)
    left_out = [row for row in returned.to_pylist() if row["target"] == UNWRITABLE]
    assert [(row["records"], row["batch"]) for row in left_out] == [(2, b"")]


@given(
    st.lists(st.tuples(TEXT, TEXT, st.none() | st.lists(st.tuples(st.text(max_size=20), TEXT), max_size=3)), min_size=1)
)
def test_the_bound_on_a_record_is_never_less_than_its_batch(records):
    """DefaultRecordBatch.estimateBatchSizeUpperBound: what the Java producer compares with max.request.size."""
    table = pa.Table.from_pydict(
        {
            "key": pa.array([key for key, _, _ in records], pa.binary()),
            "value": pa.array([value for _, value, _ in records], pa.binary()),
            "headers": pa.array(
                [
                    None if own is None else [{"key": key, "value": value} for key, value in own]
                    for _, _, own in records
                ],
                HEADERS,
            ),
        }
    )
    bounds = size_bounds(table).tolist()
    for row, bound in enumerate(bounds):
        (group,) = encoder().encode(table.slice(row, 1).to_batches(), 0)
        (batch,) = group.batches
        assert len(batch.data) <= bound <= len(batch.data) + 21


def sized_rows(*sizes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [bytes(size) for size in sizes]})


def groups(*parts: pa.RecordBatch) -> list[int]:
    """How many records each group has that is encoded together."""
    encoder = RowEncoder("out", Targets((TopicPartition("out", 0),)), Codec.NONE, 64 * 1024 * 1024, 0)
    return [sum(batch.records for batch in group.batches) for group in encoder.encode(iter(parts), 0)]


def test_small_parts_of_a_task_are_encoded_together() -> None:
    assert groups(sized_rows(10, 20), sized_rows(), sized_rows(30), sized_rows(40)) == [4]
    assert groups(sized_rows()) == []


def test_large_parts_are_not_waited_for() -> None:
    half = sized_rows(GROUP_BYTES // 2)
    assert groups(half, half, half, sized_rows(1)) == [2, 2]


@pytest.mark.parametrize("length", [0, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**21])
def test_length_of_a_value_takes_as_many_bytes_as_its_varint_has(length: int) -> None:
    """ByteUtils.sizeOfVarint: zigzag-encoded, seven bits in a byte."""
    varint_bytes = max(1, -(-(2 * length).bit_length() // 7))
    empty, own = size_bounds(pa.Table.from_batches([sized_rows(0, length)])).tolist()
    assert own - empty == length + varint_bytes - 1


@pytest.mark.parametrize("topic", ["out", None])
def test_record_of_a_write_is_looked_for_where_it_is_put(topic: str | None) -> None:
    written = [TopicPartition("out", 3)]
    assert set(record_partitions(topic)) <= set(write_entries("id", topic, written))
    assert record_partitions("out") == list(write_entries("id", "out", []))
