"""Records that cannot be written: how they are found before the transaction, and what becomes of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.records import Codec, decode_batch
from oncelog.spark.sink.encoding import PROBLEM, UNWRITABLE, RowEncoder, Targets
from oncelog.spark.sink.unwritable import Limits, Policy, RowError, size_bounds

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
