"""Partitions of topics by id, as target assignments and members have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

Partition = tuple[UUID, int]
"""A topic's id and a partition's index."""

Assignment = frozenset[Partition]
Owned = Mapping[Partition, int]
"""Partitions that a member has, and the epoch in which each was assigned to it."""

NOTHING: Assignment = frozenset()
NOTHING_OWNED: Owned = {}


def by_topic(partitions: Iterable[Partition]) -> dict[UUID, list[int]]:
    """The indexes of each topic, topics and indexes in their order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, []).append(index)
    # By their numbers: to compare ids themselves takes many times as long.
    return {topic_id: sorted(topics[topic_id]) for topic_id in sorted(topics, key=lambda topic_id: topic_id.int)}


def place_of(partition: Partition) -> tuple[int, int]:
    """By which partitions are put in order."""
    return partition[0].int, partition[1]
