"""What groups are told of the topics of the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID


class KnownTopic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class KnownTopics(Protocol):
    """Every topic. `version` is another after a topic was made, deleted or given more partitions."""

    @property
    def version(self) -> int: ...
    def named(self, name: str) -> KnownTopic | None: ...
    def with_id(self, topic_id: UUID) -> KnownTopic | None: ...
    def __iter__(self) -> Iterator[KnownTopic]: ...


class _NoTopics:
    version = 0

    def named(self, name: str) -> None:
        return None

    def with_id(self, topic_id: UUID) -> None:
        return None

    def __iter__(self) -> Iterator[KnownTopic]:
        return iter(())


NO_TOPICS: KnownTopics = _NoTopics()
