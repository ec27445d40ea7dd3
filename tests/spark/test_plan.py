"""Who sends a micro-batch, and how partitions are given to tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.spark.plan import (
    DIRECT_RECORDS_MAX,
    PUMP_BYTES_MAX,
    Mode,
    ModeError,
    SparkFacts,
    check_mode,
    is_direct,
    lanes,
    parse_mode,
    sender,
)

FIXED = SparkFacts(slots=4, allocates_dynamically=False)
DYNAMIC = SparkFacts(slots=4, allocates_dynamically=True)


def test_large_batches_are_sent_by_tasks_and_small_ones_by_the_driver():
    assert sender(Mode.AUTO, FIXED, PUMP_BYTES_MAX + 1) is Mode.SHARED_PRODUCER
    assert sender(Mode.AUTO, FIXED, PUMP_BYTES_MAX) is Mode.DRIVER_PUMP


def test_the_driver_sends_where_no_barrier_stage_can_run():
    assert sender(Mode.AUTO, DYNAMIC, 1 << 30) is Mode.DRIVER_PUMP
    assert sender(Mode.AUTO, SparkFacts(0, False), 1 << 30) is Mode.DRIVER_PUMP


def test_a_mode_that_was_asked_for_is_kept_or_refused():
    assert sender(Mode.SHARED_PRODUCER, FIXED, 1) is Mode.SHARED_PRODUCER
    assert sender(Mode.DRIVER_PUMP, FIXED, 1 << 30) is Mode.DRIVER_PUMP
    check_mode(Mode.AUTO, DYNAMIC)
    with pytest.raises(ModeError, match="dynamicAllocation"):
        check_mode(Mode.SHARED_PRODUCER, DYNAMIC)
    with pytest.raises(ModeError, match="driver-pump"):
        parse_mode("pump")


def test_rows_come_to_the_driver_only_when_input_and_last_output_were_small():
    assert is_direct(Mode.AUTO, 10, 10)
    assert is_direct(Mode.DRIVER_PUMP, 10, 10)
    assert not is_direct(Mode.SHARED_PRODUCER, 10, 10)
    assert not is_direct(Mode.AUTO, None, 10)
    assert not is_direct(Mode.AUTO, 10, None)
    assert not is_direct(Mode.AUTO, 10, DIRECT_RECORDS_MAX + 1)
    assert not is_direct(Mode.AUTO, DIRECT_RECORDS_MAX + 1, 10)


@given(st.dictionaries(st.integers(0, 40), st.integers(1, 10**9), min_size=1), st.integers(0, 12), st.integers(1, 4))
def test_every_lane_has_targets_and_no_more_lanes_than_slots(sizes, slots, leader_count):
    partitions = [TopicPartition("a", number) for number in range(41)]
    leaders = {item: item.partition % leader_count for item in partitions}
    assigned = lanes(sizes, leaders, partitions, slots)
    assert assigned.keys() == sizes.keys()
    width = len(set(assigned.values()))
    assert sorted(set(assigned.values())) == list(range(width))
    assert width == max(1, min(slots, len(sizes)))
