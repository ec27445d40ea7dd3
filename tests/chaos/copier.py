"""A program that copies a topic, transaction by transaction, as a member of a group, and records what it does.

    python -m tests.chaos.copier CLIENT BOOTSTRAP NAME SOURCE TARGET HISTORY SEED PATIENCE_SECONDS

One transaction in three is aborted. It ends when it cannot go on, and whoever started it starts another. No call of it takes
longer than its patience lasts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

import confluent_kafka

from oncelog.client import Consumer, OffsetAndMetadata, Producer, TopicPartition
from oncelog.testing.checker import HistoryWriter, OperationRecorder

RECORDS_MAX = 200
SESSION_MS = 3_000
SEPARATOR = "#"
"""Between the value of the input and what makes each try another value of the history."""
Copied = tuple[int, int, str]
"""Partition, offset, value."""


class Copier(Protocol):
    """A consumer and a producer of one library."""

    def poll(self) -> list[Copied]: ...
    def send(self, operation: OperationRecorder, partition: int, value: str) -> None: ...
    def begin(self) -> None: ...
    def send_offsets(self, offsets: dict[int, int]) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def rewind(self) -> None: ...


class ConfluentCopier:
    """confluent-kafka."""

    def __init__(
        self, bootstrap: str, name: str, source: str, target: str, patience_seconds: float, rebalanced: Any
    ) -> None:
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        self._source, self._target, self._patience_seconds = source, target, patience_seconds
        self._producer = confluent_kafka.Producer(
            {**common, "transactional.id": name, "linger.ms": 2, "metadata.recovery.strategy": "none"}
        )
        self._producer.init_transactions(patience_seconds)
        self._consumer = confluent_kafka.Consumer(
            {
                **common,
                "group.id": f"copiers-of-{source}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 20,
                "partition.assignment.strategy": "range",
            }
        )

        def moved(_consumer: object, places: list[confluent_kafka.TopicPartition]) -> None:
            rebalanced(place.partition for place in places)

        self._consumer.subscribe([source], on_assign=moved, on_revoke=moved, on_lost=moved)
        self.begin = self._producer.begin_transaction

    def poll(self) -> list[Copied]:
        messages = self._consumer.consume(RECORDS_MAX, 0.1)
        return [(one.partition(), one.offset(), one.value().decode()) for one in messages if one.error() is None]

    def send(self, operation: OperationRecorder, partition: int, value: str) -> None:
        sending = operation.sending(f"{self._target}-{partition}", value)

        def landed(error: object, message: confluent_kafka.Message) -> None:
            if error is None:
                sending.landed(message.offset())

        self._producer.produce(self._target, value, partition=partition, on_delivery=landed)

    def send_offsets(self, offsets: dict[int, int]) -> None:
        places = [confluent_kafka.TopicPartition(self._source, *one) for one in offsets.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(places, metadata, self._patience_seconds)

    def commit(self) -> None:
        self._producer.flush(self._patience_seconds)
        self._producer.commit_transaction(self._patience_seconds)

    def abort(self) -> None:
        self._producer.abort_transaction(self._patience_seconds)

    def rewind(self) -> None:
        for place in self._consumer.committed(self._consumer.assignment(), self._patience_seconds):
            place.offset = max(place.offset, 0)
            self._consumer.seek(place)


class OwnCopier:
    """oncelog's client."""

    def __init__(
        self, bootstrap: str, name: str, source: str, target: str, patience_seconds: float, rebalanced: Any
    ) -> None:
        self._source, self._target = source, target
        timeouts = {"call_timeout_ms": patience_seconds * 1000, "request_timeout_ms": patience_seconds * 1000}
        self._producer = Producer(
            bootstrap, transactional_id=name, delivery_timeout_ms=patience_seconds * 1000, **timeouts
        )
        self._producer.init_transactions()
        self._consumer = Consumer(
            bootstrap,
            group_id=f"copiers-of-{source}",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            assignors=["range"],
            max_wait_ms=20,
            **timeouts,
        )

        def moved(places: Iterable[Any]) -> None:
            rebalanced(place.partition for place in places)

        self._consumer.subscribe([source], on_assigned=moved, on_revoked=moved, on_lost=moved)
        self.begin = self._producer.begin_transaction
        self.abort = self._producer.abort_transaction
        self.rewind = self._consumer.seek_to_committed

    def poll(self) -> list[Copied]:
        return [
            (one.partition, one.offset, (one.value or b"").decode())
            for one in self._consumer.poll(100, records_max=RECORDS_MAX)
        ]

    def send(self, operation: OperationRecorder, partition: int, value: str) -> None:
        sending = operation.sending(f"{self._target}-{partition}", value)
        self._producer.send(
            self._target,
            value.encode(),
            partition=partition,
            on_delivery=lambda metadata, _: sending.landed(metadata.offset) if metadata is not None else None,
        )

    def send_offsets(self, offsets: dict[int, int]) -> None:
        places = {TopicPartition(self._source, one): OffsetAndMetadata(offset) for one, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(places, self._consumer.group_metadata())

    def commit(self) -> None:
        self._producer.flush()
        self._producer.commit_transaction()


COPIERS = {"confluent-kafka": ConfluentCopier, "oncelog": OwnCopier}


class CopyLoop:
    """Copies until something fails that an abort does not mend."""

    def __init__(self, make: Callable[[Any], Copier], source: str, history: HistoryWriter, process: str) -> None:
        self._recorder = history.process(process)
        self._process, self._source, self._tries = process, source, 0
        self._operation: OperationRecorder | None = None
        self._copier = make(self._moved)
        self._recorder.subscribe([source])

    def run(self, chance: Random) -> None:
        while True:
            with self._recorder.operation() as operation:
                self._operation = operation
                self._one(operation, will_abort=chance.random() < 1 / 3)

    def _moved(self, partitions: Iterable[int]) -> None:
        if self._operation is not None:
            self._operation.rebalanced(f"{self._source}-{partition}" for partition in partitions)

    def _one(self, operation: OperationRecorder, *, will_abort: bool) -> None:
        records = self._copier.poll()
        operation.polled((f"{self._source}-{partition}", offset, value) for partition, offset, value in records)
        if not records:
            operation.ok()
            return
        self._copier.begin()
        try:
            for partition, _, value in records:
                self._tries += 1
                self._copier.send(operation, partition, f"{value}{SEPARATOR}{self._process}.{self._tries}")
            self._copier.send_offsets({partition: offset + 1 for partition, offset, _ in records})
        except Exception as error:  # noqa: BLE001 - nothing was committed, whatever it is
            self._give_up(operation, f"{type(error).__name__}: {error}")
            return
        if will_abort:
            self._give_up(operation, "one in three")
            return
        self._copier.commit()
        operation.ok()

    def _give_up(self, operation: OperationRecorder, why: str) -> None:
        """Where the abort fails, too, this process ends: the next one of its name aborts what is left."""
        self._copier.abort()
        operation.failed(why)
        self._copier.rewind()


def main() -> None:
    client, bootstrap, name, source, target, path, seed, patience = sys.argv[1:]

    def make(rebalanced: Any) -> Copier:
        return COPIERS[client](bootstrap, name, source, target, float(patience), rebalanced)

    with HistoryWriter(path) as history:
        CopyLoop(make, source, history, f"{name}.{seed}").run(Random(seed))


if __name__ == "__main__":
    main()
