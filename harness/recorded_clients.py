"""Transactions and polls of confluent-kafka and of oncelog's client, written to a history as they happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import confluent_kafka

from oncelog.client import Consumer, IsolationLevel, Producer, TopicPartition
from oncelog.testing.checker import OperationRecorder, ProcessRecorder

TIMEOUT_SECONDS = 30.0
Place = tuple[str, int]
"""A topic and a partition of it."""
Polled = tuple[str, int, str]
"""A key, an offset and a value, as OperationRecorder.polled takes them."""


def key_of(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


class RecordedProducer(Protocol):
    """One transactional producer; each transaction is within one operation."""

    def begin(self) -> None: ...
    def send(self, operation: OperationRecorder, place: Place, value: str) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class RecordedReader(Protocol):
    """A consumer that is assigned places, which it reads from their start."""

    def poll(self, timeout_seconds: float) -> list[Polled]: ...
    def close(self) -> None: ...


class ConfluentRecorded:
    """confluent-kafka, as a producer."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 2,
            "reconnect.backoff.max.ms": 200,
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._producer = confluent_kafka.Producer(settings)
        self._producer.init_transactions(timeout_seconds)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, operation: OperationRecorder, place: Place, value: str) -> None:
        sending = operation.sending(key_of(place), value)

        def landed(error: object, message: confluent_kafka.Message) -> None:
            if error is None:
                sending.landed(message.offset())

        self._producer.produce(place[0], value, partition=place[1], on_delivery=landed)

    def commit(self) -> None:
        """Deliveries are told before the operation ends, so that it has the offsets."""
        self._producer.flush(self._timeout_seconds)
        self._producer.commit_transaction(self._timeout_seconds)

    def abort(self) -> None:
        self._producer.flush(self._timeout_seconds)
        self._producer.abort_transaction(self._timeout_seconds)

    def close(self) -> None:
        """What it has not sent is dropped."""
        self._producer.purge()


class OwnRecorded:
    """oncelog's client, as a producer."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        timeout_ms = timeout_seconds * 1000
        self._producer = Producer(
            bootstrap,
            transactional_id=transactional_id,
            call_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.close = self._producer.close

    def send(self, operation: OperationRecorder, place: Place, value: str) -> None:
        sending = operation.sending(key_of(place), value)
        self._producer.send(
            place[0],
            value.encode(),
            partition=place[1],
            on_delivery=lambda metadata, _: sending.landed(metadata.offset) if metadata is not None else None,
        )

    def commit(self) -> None:
        self._producer.flush()
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Without the flush an abort drops what was not sent yet, and there would be nothing that was aborted."""
        self._producer.flush()
        self._producer.abort_transaction()


class ConfluentReader:
    """confluent-kafka, as a consumer that is assigned places."""

    def __init__(self, bootstrap: str, places: list[Place], recorder: ProcessRecorder, isolation: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "assigned",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self.ended: set[str] = set()
        """Keys that it has read to their last stable offset, as that was then."""
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in places])
        recorder.assign(map(key_of, places))
        self.close = self._consumer.close

    def poll(self, timeout_seconds: float) -> list[Polled]:
        return list(self._records(timeout_seconds))

    def _records(self, timeout_seconds: float) -> Iterator[Polled]:
        for message in self._consumer.consume(500, timeout_seconds):
            key = key_of((message.topic(), message.partition()))
            if message.error() is None:
                yield key, message.offset(), message.value().decode()
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self.ended.add(key)


class OwnReader:
    """oncelog's client, as a consumer that is assigned places."""

    def __init__(self, bootstrap: str, places: list[Place], recorder: ProcessRecorder, isolation: str) -> None:
        self._consumer = Consumer(bootstrap, isolation_level=IsolationLevel[isolation.upper()], max_wait_ms=20)
        self._consumer.assign({TopicPartition(*place): 0 for place in places})
        recorder.assign(map(key_of, places))
        self.close = self._consumer.close

    def poll(self, timeout_seconds: float) -> list[Polled]:
        return [
            (key_of((one.topic, one.partition)), one.offset, (one.value or b"").decode())
            for one in self._consumer.poll(timeout_seconds * 1000)
        ]
