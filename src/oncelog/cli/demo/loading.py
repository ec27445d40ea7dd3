"""Putting the flights into the input topic, and reading back in which order they lie there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelog.cli.broker_process import ProcessError
from oncelog.cli.demo.flights import Flight
from oncelog.cli.demo.plan import INPUT_TOPIC, PARTITIONS, PIPELINES, Guarantee
from oncelog.cli.demo.reading import read_all

ADVANCE_EVERY = 4096
VALUE_START = b'{"id":'


def create_topics(bootstrap_servers: str) -> None:
    """The input, and each pipeline's output for each way of writing. Raises ProcessError."""
    outputs = [pipeline.topic(guarantee) for guarantee in Guarantee for pipeline in PIPELINES]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT_TOPIC, *outputs)])
    for name, done in made.items():
        if (error := done.exception(timeout=30)) is not None:
            raise ProcessError(f"topic {name} could not be made: {error}")


def load(bootstrap_servers: str, flights: Sequence[Flight], advance: Callable[[int], None]) -> None:
    """Produce every flight under its tail number. Raises ProcessError if one was refused."""
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
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    for number, flight in enumerate(flights, start=1):
        producer.produce(INPUT_TOPIC, key=flight.key, value=flight.value, on_delivery=delivered)
        if number % ADVANCE_EVERY == 0:
            producer.poll(0)
            advance(ADVANCE_EVERY)
    producer.flush()
    if refused:
        raise ProcessError(f"{len(refused)} flights were refused; the first: {refused[0]}")
    advance(len(flights) % ADVANCE_EVERY)


def input_log(bootstrap_servers: str, flights: Sequence[Flight]) -> list[list[Flight]]:
    """The flights of each partition in the order of their offsets. Raises ProcessError if one is missing or twice."""
    placed: list[list[tuple[int, Flight]]] = [[] for _ in range(PARTITIONS)]
    for record in read_all(bootstrap_servers, INPUT_TOPIC, "read_committed"):
        _, partition, offset = record.place
        number = int(record.value[len(VALUE_START) : record.value.index(b",")])
        placed[partition].append((offset, flights[number]))
    for line in placed:
        line.sort(key=lambda item: item[0])
        if [offset for offset, _ in line] != list(range(len(line))):
            raise ProcessError("the input topic has gaps")
    if sorted(flight.id for line in placed for _, flight in line) != list(range(len(flights))):
        raise ProcessError("the input topic does not hold every flight once")
    return [[flight for _, flight in line] for line in placed]
