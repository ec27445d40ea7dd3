"""Partitions of topics by id, as target assignments and members have them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from uuid import UUID

from oncelog.groups.context import KnownTopics

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


NO_TOPICS_HASH = 0
HASH_BYTES = 8


def ids_of(topics: KnownTopics, names: Iterable[str]) -> frozenset[UUID]:
    """The ids of those that are there."""
    return frozenset(topic.topic_id for name in names if (topic := topics.named(name)) is not None)


def metadata_hash(topics: KnownTopics, names: Iterable[str]) -> int:
    """A signed 64-bit number that is another when one of these topics comes, goes, or is given more partitions."""
    found = [topic for name in sorted(names) if (topic := topics.named(name)) is not None]
    if not found:
        return NO_TOPICS_HASH
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    for topic in found:
        digest.update(f"{topic.name}/{topic.topic_id}/{len(topic.partitions)},".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
