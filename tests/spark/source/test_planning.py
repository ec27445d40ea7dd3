"""How much a micro-batch reads, and how it is cut for tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.spark.source.planning import OffsetRange, available, capped, divided, limited

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
spans = st.dictionaries(partitions, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1)


@given(spans, st.integers(1, 500))
def test_limit_is_shared_out_and_nothing_is_passed_over(chosen, offsets_max):
    start = {item: first for item, (first, _) in chosen.items()}
    latest = {item: first + size for item, (first, size) in chosen.items()}
    end = limited(start, latest, offsets_max)
    assert all(start[item] <= end[item] <= latest[item] for item in chosen)
    assert all(end[item] > start[item] for item in chosen if latest[item] > start[item])
    assert available(start, end) <= max(offsets_max, 0) + len(chosen)
    if available(start, latest) <= offsets_max:
        assert end == latest


def test_limit_is_in_proportion_to_what_there_is():
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    assert limited({first: 10, second: 0}, {first: 110, second: 300}, 100) == {first: 35, second: 75}


def test_nothing_is_read_beyond_the_bound_of_available_now():
    first, second, new = (TopicPartition("a", number) for number in range(3))
    latest, bound = {first: 9, second: 5, new: 4}, {first: 7, second: 6}
    assert capped(latest, bound, {first: 0, second: 0}) == {first: 7, second: 5}


def test_bound_that_is_behind_what_was_read_takes_nothing_back():
    """A broker that led before, or has not heard of a partition yet, may have said it."""
    first, second, new = (TopicPartition("t", index) for index in range(3))
    latest = {first: 120, second: 30, new: 4}
    assert capped(latest, {first: 50}, {first: 100, second: 30}) == {first: 100, second: 30}


@given(
    st.lists(st.tuples(partitions, st.integers(0, 50), st.integers(0, 300)), max_size=6),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 100),
)
def test_division_covers_each_range_once_and_in_order(spans, partitions_min, records_max):
    ranges = [OffsetRange(item, first, first + size) for item, first, size in spans]
    parts = divided(ranges, partitions_min, records_max)
    assert [(part.partition, offset) for part in parts for offset in range(part.start, part.end)] == [
        (whole.partition, offset) for whole in ranges for offset in range(whole.start, whole.end)
    ]
    assert all(part.size > 0 for part in parts)
    if records_max is not None:
        assert all(part.size <= records_max for part in parts)


def test_min_partitions_cuts_the_long_ranges():
    long, short = TopicPartition("a", 0), TopicPartition("a", 1)
    parts = divided([OffsetRange(long, 0, 900), OffsetRange(short, 0, 100)], 10, None)
    assert [part.partition for part in parts].count(long) == 9
    assert len(parts) == 10
