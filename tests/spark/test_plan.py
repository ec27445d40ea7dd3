"""Who sends a micro-batch, and how partitions are given to tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.spark.plan import (
    DIRECT_BYTES_MAX,
    DIRECT_BYTES_MAX_AFAR,
    DIRECT_BYTES_MAX_COMPRESSED,
    DIRECT_RECORDS_MAX,
    DRIVER_SENDS_BYTES_MAX,
    Expectation,
    Mode,
    ModeError,
    SparkFacts,
    Volume,
    check_mode,
    direct_bytes_max,
    is_direct,
    parse_mode,
    sender,
    sender_tasks,
)

MIB = 1024 * 1024
FIXED = SparkFacts(slots=4, allocates_dynamically=False)
DYNAMIC = SparkFacts(slots=4, allocates_dynamically=True)


def test_large_batches_are_sent_by_tasks_and_small_ones_by_the_driver():
    assert sender(Mode.AUTO, FIXED, DRIVER_SENDS_BYTES_MAX + 1) is Mode.SHARED_PRODUCER
    assert sender(Mode.AUTO, FIXED, DRIVER_SENDS_BYTES_MAX) is Mode.DRIVER_PUMP


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


def expected(input_offsets, is_proportional=False):
    return Expectation(input_offsets, is_proportional)


def before(records, size_bytes=100, input_offsets=None):
    return Volume(input_offsets, records, size_bytes)


def test_rows_come_to_the_driver_when_input_and_last_output_were_few():
    assert is_direct(Mode.AUTO, expected(10), before(10), MIB)
    assert is_direct(Mode.DRIVER_PUMP, expected(10), before(10), MIB)
    assert not is_direct(Mode.SHARED_PRODUCER, expected(10), before(10), MIB)
    assert not is_direct(Mode.AUTO, expected(None), before(10), MIB)
    assert not is_direct(Mode.AUTO, expected(10), None, MIB)
    assert not is_direct(Mode.AUTO, expected(10), before(DIRECT_RECORDS_MAX + 1), MIB)
    assert not is_direct(Mode.AUTO, expected(DIRECT_RECORDS_MAX + 1), before(10), MIB)


def test_many_rows_come_to_the_driver_when_the_batch_before_says_that_they_are_small():
    many = 20 * DIRECT_RECORDS_MAX
    assert is_direct(Mode.AUTO, expected(many, True), before(many, MIB, many), MIB)
    assert is_direct(Mode.DRIVER_PUMP, expected(many, True), before(many, MIB, many), MIB)
    assert not is_direct(Mode.SHARED_PRODUCER, expected(many, True), before(many, MIB, many), MIB)
    assert not is_direct(Mode.AUTO, expected(many, True), before(many, MIB + 1, many), MIB)
    assert is_direct(Mode.AUTO, expected(2 * many, True), before(many, MIB // 2, many), MIB)
    assert not is_direct(Mode.AUTO, expected(2 * many, True), before(many, MIB // 2 + 1, many), MIB)
    # A small input after a large one says nothing new: the large one is what may come again.
    assert not is_direct(Mode.AUTO, expected(many, True), before(many, MIB + 1, 2 * many), MIB)


def test_what_comes_out_of_a_state_is_not_foretold():
    many = 20 * DIRECT_RECORDS_MAX
    assert not is_direct(Mode.AUTO, expected(many, False), before(many, 1, many), MIB)


def test_a_small_batch_does_not_foretell_a_large_one():
    many = 20 * DIRECT_RECORDS_MAX
    assert not is_direct(Mode.AUTO, expected(many, True), before(0, 0, many // 2 - 1), MIB)
    assert not is_direct(Mode.AUTO, expected(many, True), before(0, 0, 0), MIB)
    assert not is_direct(Mode.AUTO, expected(many, True), before(0, 0, None), MIB)


def test_the_driver_takes_in_more_where_the_tasks_are_its_own():
    assert direct_bytes_max("local[2]", is_compressed=False) == DIRECT_BYTES_MAX
    assert direct_bytes_max("local", is_compressed=False) == DIRECT_BYTES_MAX
    assert direct_bytes_max("local-cluster[2,1,1024]", is_compressed=False) == DIRECT_BYTES_MAX_AFAR
    assert direct_bytes_max("spark://there:7077", is_compressed=False) == DIRECT_BYTES_MAX_AFAR
    assert direct_bytes_max("local[2]", is_compressed=True) == DIRECT_BYTES_MAX_COMPRESSED


@given(st.dictionaries(st.integers(0, 40), st.integers(1, 10**9), min_size=1), st.integers(0, 12), st.integers(1, 4))
def test_every_lane_has_targets_and_no_more_lanes_than_slots(sizes, slots, leader_count):
    partitions = [TopicPartition("a", number) for number in range(41)]
    leaders = {item: item.partition % leader_count for item in partitions}
    assigned = sender_tasks(sizes, leaders, partitions, slots)
    assert assigned.keys() == sizes.keys()
    width = len(set(assigned.values()))
    assert sorted(set(assigned.values())) == list(range(width))
    assert width == max(1, min(slots, len(sizes)))
