"""Which topics somebody has heard of: what a start must have, and what it must not have again."""

from __future__ import annotations

from uuid import UUID

from oncelog.broker.storage.topics import Topics
from oncelog.simulation.broker_node import SimulationFailure


class RememberedTopics:
    """A topic is there when its record is durable, and gone when that is. Neither a kill nor a power cut changes it."""

    def __init__(self) -> None:
        self.made_anew: set[str] = set()
        """The names that more than one topic had."""
        self._topics: Topics | None = None
        self._names: dict[str, UUID] = {}
        self._counts: dict[UUID, int] = {}
        self._gone: set[UUID] = set()

    def started(self, topics: Topics) -> None:
        """Raise SimulationFailure for what a start has lost, or brought back."""
        there = {topic.topic_id: len(topic.partitions) for topic in topics}
        for topic_id, count in self._counts.items():
            if topic_id not in there and not self._may_be_gone(topic_id):
                raise SimulationFailure(f"a start has lost the topic {topic_id}")
            if there.get(topic_id, count) < count:
                raise SimulationFailure(f"a start has {there[topic_id]} of {count} partitions of the topic {topic_id}")
        back = self._gone & there.keys()
        if back:
            raise SimulationFailure(f"a start has brought deleted topics back: {sorted(map(str, back))}")

    def _may_be_gone(self, topic_id: UUID) -> bool:
        """Whether the broker before was deleting it, or had just done so: what ended it then ended the look at it, too."""
        assert self._topics is not None, "there is a count of what was looked at"
        topic = self._topics.with_id(topic_id)
        return topic is None or self._topics.is_being_deleted(topic.name)

    def look_at(self, topics: Topics) -> None:
        """Topics have come, or grown, or are gone."""
        self._topics = topics
        there = {topic.topic_id: len(topic.partitions) for topic in topics}
        self._gone = (self._gone | self._counts.keys()) - there.keys()
        self._counts = there
        for topic in topics:
            if self._names.setdefault(topic.name, topic.topic_id) != topic.topic_id:
                self.made_anew.add(topic.name)
