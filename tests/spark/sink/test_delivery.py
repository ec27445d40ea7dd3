"""Counting what was encoded against what was sent."""

from __future__ import annotations

from oncelog.spark.sink.delivery import Count, difference, summed, tally


def test_equal_counts_have_no_difference():
    first = tally([(0, Count(1, 1, 10, 7)), (1, Count(2, 1, 20, 8)), (0, Count(3, 1, 30, 9))])
    second = tally([(0, Count(3, 1, 30, 9)), (1, Count(2, 1, 20, 8)), (0, Count(1, 1, 10, 7))])
    assert difference(first, second) is None
    assert summed(first) == Count(6, 3, 60, 24)


def test_missing_repeated_and_changed_batches_are_seen():
    encoded = tally([(0, Count(5, 1, 10, 7)), (3, Count(2, 1, 10, 9))])
    assert "2 records were encoded, but 0 were sent" in difference(encoded, {0: encoded[0]})
    assert "but 10 were sent" in difference(encoded, {**encoded, 0: encoded[0].plus(encoded[0])})
    assert "not the ones" in difference(encoded, {**encoded, 3: Count(2, 1, 10, 10)})
    assert difference({}, {1: Count(1, 1, 1, 1)}) is not None
