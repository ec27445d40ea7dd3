"""A batch that still takes records, and what becomes of one that is too large."""

from __future__ import annotations

import pytest

from oncelog.client.producer.lanes import OutgoingBatch
from oncelog.client.producer.open_batch import OpenBatch, size_bytes
from oncelog.client.values import TopicPartition
from oncelog.records import Codec, Record, decode_batch


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_batch_is_divided_in_the_middle_until_each_record_is_alone(count: int) -> None:
    """A broker may refuse it for one of them. It is found in as few attempts as can be."""
    batch = OpenBatch(TopicPartition("orders", 0), 0)
    values = [b"%d" % number for number in range(count)]
    for value in values:
        record = Record(None, value, (), 0)
        batch.append(record, size_bytes(record))
    batch.outgoing = OutgoingBatch(batch.partition, batch.encode(Codec.NONE), 1_000)
    divide = batch.divide(Codec.NONE)
    assert divide is not None
    halves = [[record.value for record in decode_batch(half.data)] for half in divide()]
    assert halves == [values[: count // 2], values[count // 2 :]]
