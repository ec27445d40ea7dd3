"""The topics of the demo, written and read with confluent-kafka, a client that is not oncelog's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelog.demo.flights import Flight
from oncelog.demo.plan import INPUT_TOPIC, PARTITIONS, PIPELINES, Guarantee
from oncelog.demo.processes import ProcessError
from oncelog.demo.tally import OutputRecord, Place

ADVANCE_EVERY = 4096

Placed = tuple[int, int, Flight]
"""Partition, offset, and what is there."""


def create_topics(bootstrap_servers: str, replication_factor: int) -> None:
    """The input, and each pipeline's output for each way of writing. Raises ProcessError."""
    outputs = [pipeline.topic(guarantee) for guarantee in Guarantee for pipeline in PIPELINES]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    made = admin.create_topics([NewTopic(name, PARTITIONS, replication_factor) for name in (INPUT_TOPIC, *outputs)])
    for name, done in made.items():
        if (error := done.exception(timeout=30)) is not None:
            raise ProcessError(f"topic {name} could not be made: {error}")


def load(bootstrap_servers: str, flights: Sequence[Flight], advance: Callable[[int], None]) -> list[Placed]:
    """Produce every flight under its tail number, and return where the broker put each. Raises ProcessError if one was refused."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": "lz4",
            "message.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    placed: list[Placed] = []
    refused: list[KafkaError] = []

    def delivered(flight: Flight, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        placed.append((partition, offset, flight))

    for number, flight in enumerate(flights, start=1):
        producer.produce(INPUT_TOPIC, key=flight.key, value=flight.value, on_delivery=partial(delivered, flight))
        if number % ADVANCE_EVERY == 0:
            producer.poll(0)
            advance(ADVANCE_EVERY)
    producer.flush()
    if refused:
        raise ProcessError(f"{len(refused)} flights were refused; the first: {refused[0]}")
    advance(len(flights) % ADVANCE_EVERY)
    return placed


def input_log(placed: Iterable[Placed], flight_count: int) -> list[list[Flight]]:
    """The flights of each partition in the order of their offsets. Raises ProcessError if one is missing or twice."""
    lines: list[list[Flight]] = [[] for _ in range(PARTITIONS)]
    for partition, offset, flight in sorted(placed, key=itemgetter(0, 1)):
        if offset != len(lines[partition]):
            raise ProcessError("the input topic has gaps")
        lines[partition].append(flight)
    if sorted(flight.id for line in lines for flight in line) != list(range(flight_count)):
        raise ProcessError("the input topic does not hold every flight once")
    return lines


MESSAGES_AT_ONCE = 10_000
POLL_SECONDS = 0.2
ANSWER_SECONDS = 60
FETCH_BYTES = 8 * 1024 * 1024


def consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oncelog-demo",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "max.partition.fetch.bytes": FETCH_BYTES,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )


def delivered(reader: Consumer) -> list[Message]:
    """The messages of one poll. Errors are left out: they are those of a broker that was killed, and pass."""
    return [message for message in reader.consume(MESSAGES_AT_ONCE, POLL_SECONDS) if message.error() is None]


def place(message: Message) -> Place:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """The end offset of each partition of a topic."""
    reader = consumer(bootstrap_servers)
    try:
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_SECONDS)[1]
            for number in range(PARTITIONS)
        }
    finally:
        reader.close()


def read_all(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> Iterator[OutputRecord]:
    """Every committed record of a topic up to these end offsets; each partition in its order."""
    reader = consumer(bootstrap_servers)
    try:
        left = {number for number, end in ends.items() if end > 0}
        reader.assign([TopicPartition(topic, number, 0) for number in left])
        while left:
            for message in delivered(reader):
                yield OutputRecord(place(message), message.key(), message.value() or b"")
            # The last offsets may be markers or aborted records, which are never delivered: the position passes them.
            for position in reader.position([TopicPartition(topic, number) for number in left]):
                if position.offset >= ends[position.partition]:
                    left.discard(position.partition)
    finally:
        reader.close()


class ConcurrentReader:
    """A read_committed reader that runs from before the first driver until all runs are done."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], advance: Callable[[int], None]) -> None:
        self.seen: list[Place] = []
        self._bootstrap_servers = bootstrap_servers
        self._topics = topics
        self._advance = advance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="concurrent reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        reader = consumer(self._bootstrap_servers)
        reader.assign([TopicPartition(topic, number, 0) for topic in self._topics for number in range(PARTITIONS)])
        while True:
            messages = delivered(reader)
            self.seen.extend(map(place, messages))
            self._advance(len(messages))
            if self._stop.is_set() and not messages:
                break
        reader.close()
