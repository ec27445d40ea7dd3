"""Validation of the controller's requests: there is no authorizer, so any client can send one with impossible contents."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.storage.auto_creation import PARTITIONS_MAX
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

if TYPE_CHECKING:
    from oncelog.cluster.shared_topics import SharedTopics

INDEX_MAX = 99_999
"""The highest partition index. A topic with more partitions does not fit into a znode of 1 MB, and the directory of a partition
of the longest topic name would have a longer name than file systems allow."""
LEFT_OUT_FOR_EACH = 100
"""Partitions that may be left out for each one that is named: a topic may be spread over this many brokers."""


class OrderCheck:
    """Checks one LeaderAndIsr or UpdateMetadata request. `named` is the number of its partitions.

    A topic is a list of its partitions: unnamed partitions below a named one take memory, too.
    """

    def __init__(self, topics: SharedTopics, named: int) -> None:
        self._topics = topics
        self._left_out_max = PARTITIONS_MAX + LEFT_OUT_FOR_EACH * named
        self._names: dict[UUID, str] = {}

    def topic_problem(self, name: str, topic_id: UUID | None) -> ErrorCode | None:
        """Errors: invalid_topic_exception, unknown_topic_id without an id, inconsistent_topic_id for the one of another topic."""
        if name_problem(name) is not None:
            return ErrorCode.invalid_topic_exception
        if topic_id is None:
            return ErrorCode.unknown_topic_id
        known = self._topics.name_of(topic_id) or self._names.setdefault(topic_id, name)
        return None if known == name else ErrorCode.inconsistent_topic_id

    def possible(self, topic_id: UUID, indexes: Iterable[int]) -> Collection[int]:
        """Returns the possible ones of these partitions of a topic."""
        topic = self._topics.with_id(topic_id)
        reached = 0 if topic is None else len(topic.partitions)
        found = set()
        for index in sorted(index for index in indexes if 0 <= index <= INDEX_MAX):
            left_out = max(index - reached, 0)
            if left_out > self._left_out_max:
                break
            self._left_out_max -= left_out
            reached = max(reached, index + 1)
            found.add(index)
        return found
