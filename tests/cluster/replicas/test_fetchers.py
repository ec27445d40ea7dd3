"""Which of a leader's connections a partition is followed by."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog.cluster.replicas.fetchers import fetcher_number


@pytest.mark.parametrize(
    ("topic", "index", "number"),
    [
        ("orders", 0, 3),
        ("orders", 11, 0),
        ("payments", 0, 4),
        ("payments", 11, 1),
        ("__consumer_offsets", 49, 3),
        ("äöü", 11, 2),
    ],
)
def test_number_is_what_java_says(topic: str, index: int, number: int) -> None:
    """AbstractFetcherManager: Utils.abs(31 * topic.hashCode() + partition) % numFetchersPerBroker, computed by a JVM."""
    assert fetcher_number(topic, index, 7) == number


def test_partitions_of_a_topic_are_spread_over_all() -> None:
    assert Counter(fetcher_number("orders", index, 4) for index in range(40)) == dict.fromkeys(range(4), 10)
    assert {fetcher_number("orders", index, 1) for index in range(40)} == {0}
