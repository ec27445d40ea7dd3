"""Which partition a record without one goes to. Where a partitioner has no opinion, records go together, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.records.partitioning import crc32_partition, murmur2_partition

Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]
"""From topic, key, value and the number of partitions to one of them, or to None: any."""


def murmur2(_topic: str, key: bytes | None, _value: bytes | None, partition_count: int) -> int | None:
    """As the Java client: its hash of the key."""
    return None if key is None else murmur2_partition(key, partition_count)


def consistent_random(_topic: str, key: bytes | None, _value: bytes | None, partition_count: int) -> int | None:
    """As librdkafka by default: CRC-32 of the key, of which an empty one is none."""
    return crc32_partition(key, partition_count) if key else None


def sticky(_topic: str, _key: bytes | None, _value: bytes | None, _partition_count: int) -> int | None:
    """Batch by batch, whatever the key is."""
    return None


PARTITIONERS: Mapping[str, Partitioner] = {
    "murmur2": murmur2,
    "consistent_random": consistent_random,
    "sticky": sticky,
}


def find_partitioner(chosen: str | Partitioner) -> Partitioner:
    """Raises ValueError."""
    if not isinstance(chosen, str):
        return chosen
    if chosen not in PARTITIONERS:
        raise ValueError(f"partitioner is {chosen!r}: {', '.join(PARTITIONERS)} or a function is allowed")
    return PARTITIONERS[chosen]
