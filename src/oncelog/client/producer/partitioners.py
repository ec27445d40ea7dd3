"""Which partition a record without one goes to. Where a partitioner has no opinion, the sticky partition takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.records.record import crc32_partition, murmur2_partition


@dataclass(frozen=True, slots=True)
class PartitionsOfTopic:
    """A topic's partitions as the client last heard of them: 0 to `count` - 1, of which the `available` have a leader."""

    count: int
    available: tuple[int, ...]

    @property
    def usable(self) -> tuple[int, ...]:
        """The available ones; all, where none has a leader."""
        return self.available or tuple(range(self.count))


Partitioner = Callable[[str, bytes | None, bytes | None, PartitionsOfTopic], int | None]
"""From topic, key, value and the topic's partitions to one of them, or to None: any."""


def murmur2(_topic: str, key: bytes | None, _value: bytes | None, partitions: PartitionsOfTopic) -> int | None:
    """As the Java client: its hash of the key."""
    return None if key is None else murmur2_partition(key, partitions.count)


def consistent_random(
    _topic: str, key: bytes | None, _value: bytes | None, partitions: PartitionsOfTopic
) -> int | None:
    """As librdkafka by default: CRC-32 of the key, of which an empty one is none."""
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
