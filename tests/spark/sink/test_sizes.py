"""How many rows are encoded together, and how large a row is: sizes at which something changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oncelog.client.values import TopicPartition
from oncelog.records import Codec
from oncelog.spark.sink.encoding import GROUP_BYTES, RowEncoder, Targets
from oncelog.spark.sink.unwritable import size_bounds
from oncelog.spark.sink.write_record import record_partitions, write_entries


def rows(*sizes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [bytes(size) for size in sizes]})


def groups(*parts: pa.RecordBatch) -> list[int]:
    """How many records each group has that is encoded together."""
    encoder = RowEncoder("out", Targets((TopicPartition("out", 0),)), Codec.NONE, 64 * 1024 * 1024, 0)
    return [sum(batch.records for batch in group.batches) for group in encoder.encode(iter(parts), 0)]


def test_small_parts_of_a_task_are_encoded_together() -> None:
    assert groups(rows(10, 20), rows(), rows(30), rows(40)) == [4]
    assert groups(rows()) == []


def test_large_parts_are_not_waited_for() -> None:
    half = rows(GROUP_BYTES // 2)
    assert groups(half, half, half, rows(1)) == [2, 2]


@pytest.mark.parametrize("length", [0, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**21])
def test_length_of_a_value_takes_as_many_bytes_as_its_varint_has(length: int) -> None:
    """ByteUtils.sizeOfVarint: zigzag-encoded, seven bits in a byte."""
    varint_bytes = max(1, -(-(2 * length).bit_length() // 7))
    empty, own = size_bounds(pa.Table.from_batches([rows(0, length)])).tolist()
    assert own - empty == length + varint_bytes - 1


@pytest.mark.parametrize("topic", ["out", None])
def test_record_of_a_write_is_looked_for_where_it_is_put(topic: str | None) -> None:
    written = [TopicPartition("out", 3)]
    assert set(record_partitions(topic)) <= set(write_entries("id", topic, written))
    assert record_partitions("out") == list(write_entries("id", "out", []))
