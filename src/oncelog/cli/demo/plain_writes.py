"""Writing as many pipelines do: a producer in each task, and the offsets committed after the batch.

A module of its own: Spark's workers import a module's functions, but get a copy of a program's, with all that it names,
and confluent-kafka's classes cannot be copied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, Row


def at_least_once(topic: str, bootstrap_servers: str, checkpoint: Path) -> Callable[[DataFrame, int], None]:
    """Write with a producer in each task, then commit the batch's offsets for all to see."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        batch.select("key", "value").foreachPartition(partial(write_partition, topic, bootstrap_servers))
        commit_offsets(bootstrap_servers, topic, checkpoint / "offsets" / str(batch_id))

    return write_batch


def write_partition(topic: str, bootstrap_servers: str, rows: Iterable[Row]) -> None:
    """What one task does."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})
    for row in rows:
        while True:
            try:
                producer.produce(topic, key=_bytes(row.key), value=_bytes(row.value))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def commit_offsets(bootstrap_servers: str, group: str, offsets: Path) -> None:
    ends: dict[str, dict[str, int]] = json.loads(offsets.read_text().splitlines()[2])
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    positions = [
        TopicPartition(topic, int(number), end) for topic, parts in ends.items() for number, end in parts.items()
    ]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)
