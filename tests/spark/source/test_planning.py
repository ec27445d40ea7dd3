"""How much a micro-batch reads, and how it is cut for tasks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values import TopicPartition
from oncelog.spark.source.planning import (
    PARTITION_OFFSETS,
    OffsetRange,
    available,
    capped,
    divided,
    limited,
    put_together,
)

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


sizes = st.lists(st.integers(1, 300) | st.sampled_from([1, 20, 10_000]), min_size=1, max_size=60)


def of_sizes(sizes):
    return [OffsetRange(TopicPartition("t", number), 5, 5 + size) for number, size in enumerate(sizes)]


def together(parts, **said):
    nothing = {"cores": 2, "partitions_min": None, "partitions_max": None, "records_max": None}
    return put_together(parts, **(nothing | said))


@given(sizes, st.none() | st.integers(1, 90), st.none() | st.integers(50, 200), st.integers(1, 20))
def test_tasks_have_every_offset_once_in_order_and_about_as_much(sizes, partitions_min, records_max, tasks_max):
    parts = divided(of_sizes(sizes), partitions_min, records_max)
    tasks = together(parts, partitions_max=tasks_max, records_max=records_max)
    given = [part for task in tasks for part in task]
    assert [(part.partition, part.start) for part in given] == sorted((part.partition, part.start) for part in given)
    for number, size in enumerate(sizes):
        of_one = [part for part in given if part.partition.partition == number]
        assert (of_one[0].start, of_one[-1].end) == (5, 5 + size)
        assert all(before.end == after.start for before, after in pairwise(of_one))
    assert all(len({part.partition for part in task}) == len(task) for task in tasks)
    if records_max is not None:
        assert all(sum(part.size for part in task) <= records_max for task in tasks)
    elif len(parts) > tasks_max:
        assert len(tasks) <= tasks_max
        weights = [part.size + PARTITION_OFFSETS for part in parts]
        heaviest = max(sum(part.size + PARTITION_OFFSETS for part in task) for task in tasks)
        assert heaviest <= sum(weights) / tasks_max + max(weights)
    else:
        assert tasks == [(part,) for part in parts]


def by_default(sizes, cores, partitions_min=None):
    return together(of_sizes(sizes), cores=cores, partitions_min=partitions_min)


def test_many_small_partitions_are_two_tasks_a_core():
    assert [len(task) for task in by_default([20] * 1000, cores=2)] == [250] * 4
    assert len(by_default([20] * 1000, cores=8)) == 16
    assert len(by_default([20] * 1000, cores=2, partitions_min=50)) == 50


def test_four_partitions_and_large_ones_are_a_task_each():
    for sizes in ([20] * 4, [1, 1, 1, 500_000], [20_000] * 1000, [5_000_000] * 7):
        assert by_default(sizes, cores=2) == [(part,) for part in of_sizes(sizes)]


def test_large_partition_is_alone_among_many_small_ones_and_they_are_still_few_tasks():
    tasks = by_default([20] * 500 + [100_000_000] + [20] * 499, cores=2)
    (large,) = (task for task in tasks if any(part.size > 20 for part in task))
    assert len(large) == 1
    assert len(tasks) < 12


def test_pieces_of_a_partition_that_meet_in_a_task_are_one_range():
    parts = divided(of_sizes([100]), 10, None)
    assert len(parts) == 10
    assert together(parts, partitions_max=1) == [(OffsetRange(TopicPartition("t", 0), 5, 105),)]
