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
    # By their numbers: to compare and hash ids themselves takes many times as long.
    topics: dict[int, tuple[UUID, list[int]]] = {}
    for topic_id, index in partitions:
        found = topics.get(topic_id.int)
        if found is None:
            found = topics[topic_id.int] = (topic_id, [])
        found[1].append(index)
    return {topic_id: sorted(indexes) for _, (topic_id, indexes) in sorted(topics.items())}
