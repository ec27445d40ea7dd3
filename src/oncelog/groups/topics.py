"""What groups are told of the topics of the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID


class Topic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class Topics(Protocol):
    """Every topic. `version` is another after a topic was made, deleted or given more partitions."""

    @property
    def version(self) -> int: ...
    def named(self, name: str) -> Topic | None: ...
    def with_id(self, topic_id: UUID) -> Topic | None: ...
    def __iter__(self) -> Iterator[Topic]: ...


class _NoTopics:
    version = 0

    def named(self, name: str) -> None:
        return None

    def with_id(self, topic_id: UUID) -> None:
        return None

    def __iter__(self) -> Iterator[Topic]:
        return iter(())


NO_TOPICS: Topics = _NoTopics()
