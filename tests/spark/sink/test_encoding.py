"""Rows as record batches for partitions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.records import Codec, check_batch, decode_batch, murmur2_partition
from oncelog.spark.sink.encoding import RowEncoder, Targets
from oncelog.spark.sink.key_partitions import key_partitions
from oncelog.spark.sink.writable import RowError

KEYS = st.none() | st.binary(max_size=20)


def encoder(topic="out", partitions=3, rotation=0, codec=Codec.NONE):
    targets = Targets(tuple(TopicPartition(name, number) for name in ("other", "out") for number in range(partitions)))
    return RowEncoder(topic, targets, codec, 100_000, rotation)


def encoded(rows, how=None):
    """(topic, partition) to its records, in order."""
    how = how or encoder()
    found = {}
    for group in how.encode([rows], 0):
        for batch in group.batches:
            check_batch(bytes(batch.data))
            assert batch.records == len(decode_batch(bytes(batch.data)))
            found.setdefault(how.targets.partitions[batch.target], []).extend(decode_batch(bytes(batch.data)))
    return found


def table(**columns):
    return pa.RecordBatch.from_pydict(columns)


@given(st.lists(KEYS, max_size=30), st.integers(1, 12))
def test_keys_go_where_the_java_client_puts_them(keys, count):
    found = key_partitions(pa.array(keys, pa.binary()), count)
    assert found.tolist() == [-1 if key is None else murmur2_partition(key, count) for key in keys]


@given(st.lists(KEYS, min_size=4, max_size=30))
def test_a_slice_of_a_column_is_hashed_from_its_own_start(keys):
    found = key_partitions(pa.array(keys, pa.binary()).slice(2), 5)
    assert found.tolist() == [-1 if key is None else murmur2_partition(key, 5) for key in keys[2:]]


@given(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=30)), max_size=60), st.sampled_from(list(Codec)))
def test_every_row_is_written_once_and_in_order_within_its_key(rows, codec):
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "value": pa.array([value for _, value in rows], pa.binary()),
        }
    )
    found = encoded(batch, encoder(codec=codec))
    for item, records in found.items():
        assert item.topic == "out"
        assert all(record.key is None or murmur2_partition(record.key, 3) == item.partition for record in records)
    for wanted in {key for key, _ in rows}:
        expected = [value for key, value in rows if key == wanted]
        assert [r.value for records in found.values() for r in records if r.key == wanted] == expected


def test_a_partition_column_beats_the_key():
    rows = table(key=[b"a", b"a", b"a"], value=[b"1", b"2", b"3"], partition=pa.array([2, None, 0], pa.int32()))
    found = encoded(rows)
    assert [r.value for r in found[TopicPartition("out", 2)] if r.value == b"1"] == [b"1"]
    assert b"3" in [r.value for r in found[TopicPartition("out", 0)]]
    assert b"2" in [r.value for r in found[TopicPartition("out", murmur2_partition(b"a", 3))]]


def test_a_topic_column_names_the_topic():
    rows = table(topic=["out", "other", "out"], value=["1", "2", "3"])
    found = encoded(rows, encoder(topic=None))
    assert sorted(r.value for item, records in found.items() if item.topic == "out" for r in records) == [b"1", b"3"]
    assert [r.value for item, records in found.items() if item.topic == "other" for r in records] == [b"2"]


def test_rows_without_key_take_turns_between_batches():
    rows = table(value=["1", "2"])
    used = {next(iter(encoded(rows, encoder(rotation=turn)))).partition for turn in range(3)}
    assert used == {0, 1, 2}


def test_headers_are_written():
    headers = pa.array(
        [[{"key": "h", "value": b"x"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    rows = pa.RecordBatch.from_arrays([pa.array([b"1", b"2"]), headers], names=["value", "headers"])
    (records,) = encoded(rows).values()
    assert [record.headers for record in records] == [(("h", b"x"),), ()]


@pytest.mark.parametrize(
    ("rows", "word", "topic"),
    [
        (table(value=["1"], partition=pa.array([3], pa.int32())), "partition 3", "out"),
        (table(value=["1"], partition=pa.array([-1], pa.int32())), "partition -1", "out"),
        (table(value=["1"], topic=["nowhere"]), "nowhere", None),
        (table(value=["1"], topic=pa.array([None], pa.string())), "no topic", None),
    ],
)
def test_a_row_for_nowhere_is_refused(rows, word, topic):
    with pytest.raises(RowError, match=word):
        encoded(rows, encoder(topic=topic))


def test_what_tasks_return_names_task_place_and_checksum():
    how = encoder()
    (returned,) = how.encoded_rows(iter([table(key=[b"a", b"b", b"c"], value=[b"1", b"2", b"3"])]), 7)
    rows = returned.to_pylist()
    assert [row["source"] for row in rows] == [7] * len(rows)
    assert [row["position"] for row in rows] == list(range(len(rows)))
    assert sum(row["records"] for row in rows) == 3
    assert all(row["crc"] == int.from_bytes(row["batch"][17:21]) for row in rows)
