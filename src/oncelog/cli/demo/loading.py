"""Putting the flights into the input topic, and in which order they lie there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelog.cli.broker_process import ProcessError
from oncelog.cli.demo.flights import Flight
from oncelog.cli.demo.plan import INPUT_TOPIC, PARTITIONS, PIPELINES, Guarantee

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
