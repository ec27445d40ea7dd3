"""Which partition a record goes to that was given none."""

from __future__ import annotations

from oncelog.client.errors import RETRIABLE, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.conversation import Conversation, Draw
from oncelog.client.net.metadata import no_such_partition, refresh
from oncelog.client.net.rights import TOPIC_REQUEST, refused
from oncelog.client.producer.partitioners import Partitioner
from oncelog.client.values import TopicPartition
from oncelog.records import Record
from oncelog.wire import ErrorCode


class PartitionChoice:
    """The partitioner's choice, or, where it makes none, one partition until its batch is closed."""

    def __init__(self, cluster: Cluster, partitioner: Partitioner) -> None:
        self._cluster = cluster
        self._partitioner = partitioner
        self._keyless_turns: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def knows(self, topic: str, partition: int | None) -> bool:
        """Whether a topic is known, and has this partition."""
        return topic in self._cluster.topics and (partition is None or partition < self._count(topic))

    def learn_topic(self, topic: str, partition: int | None) -> Conversation[None]:
        """Find out how many partitions a topic has; it is created where the cluster does that by itself.

        Raises BrokerRefused or RetriesExhausted.
        """
        retries = yield from self._cluster.retries()
        wanted = () if partition is None else (TopicPartition(topic, partition),)
        while True:
            described = yield from refresh(self._cluster, {topic}, wanted=wanted, create=True, retries=retries)
            error = described[0].error if described else ErrorCode.unknown_topic_or_partition
            if error is ErrorCode.none:
                break
            refusal = refused(TOPIC_REQUEST, error, f"topic {topic}", topic=topic)
            if error not in RETRIABLE:
                raise refusal
            if not (yield from retries.pause()):
                raise RetriesExhausted(str(refusal)) from refusal
        drawn: float = yield Draw(0, self._count(topic))
        self._keyless_turns.setdefault(topic, int(drawn))
        if partition is not None and partition >= self._count(topic):
            raise no_such_partition(TopicPartition(topic, partition), self._count(topic))

    def partition(self, topic: str, record: Record) -> int:
        """Raises ValueError when the partitioner chose a partition that is not there."""
        count = self._count(topic)
        chosen = self._partitioner(topic, record.key, record.value, count)
        if chosen is None:
            return self._keyless_turns.get(topic, 0) % count
        if not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose partition {chosen} of the {count} of topic {topic}")
        return chosen

    def move_on(self, topic: str) -> None:
        """A batch of the topic is closed: records without a choice go to the next partition."""
        self._keyless_turns[topic] = self._keyless_turns.get(topic, 0) + 1

    def _count(self, topic: str) -> int:
        """The number of partitions as it was last heard: a topic may be gone meanwhile."""
        described = self._cluster.topics.get(topic)
        if described is not None:
            self._counts[topic] = len(described.partitions)
        return self._counts[topic]
