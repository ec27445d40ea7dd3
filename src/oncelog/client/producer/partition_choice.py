"""The partition of a record that was given none: the partitioner's choice, or the sticky partition where it makes none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.client.descriptions import TopicDescription
from oncelog.client.errors import RETRIABLE, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Draw, Now
from oncelog.client.net.metadata import no_such_partition, refresh
from oncelog.client.net.rights import TOPIC_REQUEST, refused
from oncelog.client.values import Node, TopicPartition
from oncelog.records import Record
from oncelog.records.record import crc32_partition, murmur2_partition
from oncelog.wire import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionsOfTopic:
    """A topic's partitions as the last metadata has them: 0 to `count` - 1, of which the `available` have a leader."""

    count: int
    available: tuple[int, ...]

    @property
    def usable(self) -> tuple[int, ...]:
        """The available ones; all, where none has a leader."""
        return self.available or tuple(range(self.count))


Partitioner = Callable[[str, bytes | None, bytes | None, PartitionsOfTopic], int | None]
"""A function of topic, key, value and the topic's partitions. It returns one of them, or None for any."""


def murmur2(_topic: str, key: bytes | None, _value: bytes | None, partitions: PartitionsOfTopic) -> int | None:
    """The Java client's partitioner: its hash of the key."""
    return None if key is None else murmur2_partition(key, partitions.count)


def consistent_random(
    _topic: str, key: bytes | None, _value: bytes | None, partitions: PartitionsOfTopic
) -> int | None:
    """librdkafka's default partitioner: CRC-32 of the key. An empty key counts as none."""
    return crc32_partition(key, partitions.count) if key else None


def sticky(_topic: str, _key: bytes | None, _value: bytes | None, _partitions: PartitionsOfTopic) -> int | None:
    """Batch by batch, whatever the key is."""
    return None


class RoundRobin:
    """One partition after the other, whatever the key is, as the Java client's RoundRobinPartitioner."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(
        self, topic: str, _key: bytes | None, _value: bytes | None, partitions: PartitionsOfTopic
    ) -> int | None:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return partitions.usable[turn % len(partitions.usable)]


PARTITIONERS: Mapping[str, Callable[[], Partitioner]] = {
    "murmur2": lambda: murmur2,
    "consistent_random": lambda: consistent_random,
    "sticky": lambda: sticky,
    "roundrobin": RoundRobin,
}


def find_partitioner(chosen: str | Partitioner) -> Partitioner:
    """A partitioner for one producer. Raises ValueError."""
    if not isinstance(chosen, str):
        return chosen
    if chosen not in PARTITIONERS:
        raise ValueError(f"partitioner is {chosen!r}: {', '.join(PARTITIONERS)} or a function is allowed")
    return PARTITIONERS[chosen]()


class _Topic:
    """A topic's partitions, as one answer to Metadata had them, and the sticky one, where records without a choice go."""

    __slots__ = ("_turn", "described", "nodes", "partitions", "sent_bytes", "sticky")

    def __init__(self, described: TopicDescription, nodes: Mapping[int, Node], turn: int) -> None:
        self._turn = turn
        self.described, self.nodes, self.partitions = described, nodes, _partitions(described, nodes)
        self.sticky = self._of_this_turn()
        self.sent_bytes = 0
        """The bytes that the sticky partition was given since it was chosen."""

    def learn(self, described: TopicDescription, nodes: Mapping[int, Node]) -> None:
        self.described, self.nodes, self.partitions = described, nodes, _partitions(described, nodes)
        if self.sticky not in self.partitions.usable:
            self.move_on()

    def move_on(self) -> None:
        self._turn += 1
        self.sticky = self._of_this_turn()
        self.sent_bytes = 0

    def _of_this_turn(self) -> int:
        usable = self.partitions.usable
        return usable[self._turn % len(usable)]


class PartitionChoice:
    """The partitioner's choice, or, where it makes none, one partition until it has been given `batch_bytes`.

    That is the uniform sticky partitioner of KIP-480 and KIP-794: each partition gets as many bytes as the others, however
    often their batches are sent, and those without a leader get none while others have one.
    """

    def __init__(self, cluster: Cluster, partitioner: Partitioner, batch_bytes: int) -> None:
        self._cluster = cluster
        self._partitioner = partitioner
        self._batch_bytes = batch_bytes
        self._topics: dict[str, _Topic] = {}

    def knows(self, topic: str, partition: int | None) -> bool:
        """True if a topic is known, and has this partition."""
        if topic not in self._cluster.topics:
            return False
        count = self._topic(topic).partitions.count
        return partition is None or partition < count

    async def learn_topic(self, topic: str, partition: int | None) -> None:
        """Find out how many partitions a topic has; it is created where the cluster does that by itself.

        Raises BrokerRefused or RetriesExhausted.
        """
        retries = await self._cluster.retries()
        wanted = () if partition is None else (TopicPartition(topic, partition),)
        while True:
            described = await refresh(self._cluster, {topic}, wanted=wanted, create=True, retries=retries)
            error = described[0].error if described else ErrorCode.unknown_topic_or_partition
            if error is ErrorCode.none:
                break
            refusal = refused(TOPIC_REQUEST, error, f"topic {topic}", topic=topic)
            if error not in RETRIABLE:
                raise refusal
            if not await retries.pause():
                raise RetriesExhausted(str(refusal)) from refusal
        count = len(described[0].partitions)
        self._cluster.asked_ms[topic] = await Now()
        turn = await Draw(0, count)
        self._topics.setdefault(topic, _Topic(described[0], self._cluster.nodes, int(turn)))
        if partition is not None and partition >= count:
            raise no_such_partition(TopicPartition(topic, partition), count)

    def chosen(self, topic: str, record: Record) -> int | None:
        """The partitioner's choice; None where it makes none. Raises ValueError for a partition that is not there."""
        partitions = self._topic(topic).partitions
        chosen = self._partitioner(topic, record.key, record.value, partitions)
        if chosen is not None and not 0 <= chosen < partitions.count:
            raise ValueError(f"the partitioner chose partition {chosen} of the {partitions.count} of topic {topic}")
        return chosen

    def sticky(self, topic: str) -> int:
        """The partition of records for which the partitioner makes no choice."""
        return self._topic(topic).sticky

    def close_batch(self, partition: TopicPartition, size_bytes: int, *, is_full: bool) -> None:
        """A batch takes no more records: where it makes up the share of its partition, the next one has its turn."""
        known = self._topics.get(partition.topic)
        if known is None or known.sticky != partition.partition:
            return
        known.sent_bytes += size_bytes
        if is_full or known.sent_bytes >= self._batch_bytes:
            known.move_on()

    def _topic(self, name: str) -> _Topic:
        """A topic as the last metadata has it: it may be gone meanwhile."""
        known, described, nodes = self._topics.get(name), self._cluster.topics.get(name), self._cluster.nodes
        if known is None:
            assert described is not None, "a topic is learned before records are given to it"
            known = self._topics[name] = _Topic(described, nodes, 0)
        elif described is not None and (known.described is not described or known.nodes is not nodes):
            known.learn(described, nodes)
        return known


def _partitions(described: TopicDescription, nodes: Mapping[int, Node]) -> PartitionsOfTopic:
    available = tuple(one.partition for one in described.partitions if one.leader in nodes)
    return PartitionsOfTopic(len(described.partitions), available)
