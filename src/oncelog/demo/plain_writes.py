"""Plain writes, as in many pipelines: a producer in each task, and the offsets committed after the batch.

A module of its own: Spark's workers import a module's functions, but get a copy of a program's, with all that it names,
and confluent-kafka's classes cannot be copied.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame

COORDINATOR_IS_AWAY = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
    }
)
"""librdkafka retries some of these, and leaves others to the program."""
COMMIT_SECONDS_MAX, PAUSE_SECONDS = 60.0, 0.5


def at_least_once(topic: str, bootstrap_servers: str, checkpoint: Path) -> Callable[[DataFrame, int], None]:
    """Write with a producer in each task, then commit the batch's offsets for all to see."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        writing = batch.select("key", "value").mapInArrow(partial(write_rows, topic, bootstrap_servers), "sent long")
        writing.write.format("noop").mode("overwrite").save()
        commit_offsets(bootstrap_servers, topic, checkpoint / "offsets" / str(batch_id))

    return write_batch


def write_rows(topic: str, bootstrap_servers: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task. It returns no rows."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})
    for batch in rows:
        for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            while True:
                try:
                    producer.produce(topic, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()
    yield from ()


def commit_offsets(bootstrap_servers: str, group: str, offsets: Path) -> None:
    ends: dict[str, dict[str, int]] = json.loads(offsets.read_text().splitlines()[2])
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    positions = [
        TopicPartition(topic, int(number), end) for topic, parts in ends.items() for number, end in parts.items()
    ]
    latest = time.monotonic() + COMMIT_SECONDS_MAX
    while True:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
            break
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_IS_AWAY or time.monotonic() > latest:
                raise
            time.sleep(PAUSE_SECONDS)
    consumer.close()
