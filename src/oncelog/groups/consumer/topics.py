"""The topics that a consumer group is subscribed to, as far as they are there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from oncelog.groups.topics import KnownTopics

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
