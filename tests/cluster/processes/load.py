"""A load on a cluster, by clients that survive what befalls its brokers, and what they were told of each record.

Idempotent producers, transactional ones, and a consumer group that reads what is committed, all of librdkafka.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness.waiting import until
from tests.chaos.load import LoadProducer, Outcome, Place, Worker
from tests.chaos.rounds import OwnProducer

PAUSE_SECONDS = 0.01
BATCH = 5
CALL_SECONDS = 20
COPIER = "copier"
"""The transactional id whose transactions commit offsets too, by our own client."""
JOIN_SECONDS = 90
PROGRESS_SECONDS = 120
"""Clients wait for a broker that is suspended for as long as several of their timeouts."""
Record = tuple[str, int, str]
"""Topic, partition and value."""


def settings_of(bootstrap: str) -> dict[str, Any]:
    """They hold on to no broker for long that has stopped to answer."""
    return {
        "bootstrap.servers": bootstrap,
        "socket.timeout.ms": 6000,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }


class TransactionalProducer:
    """One of librdkafka behind the face of the load. It commits no offsets.

    librdkafka 2.16 goes on sending TxnOffsetCommit to a coordinator that is away, without end, and asks for no other.
    """

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        own = {"transactional.id": transactional_id, "linger.ms": 5, "request.timeout.ms": 6000}
        self._producer = Producer(settings_of(bootstrap) | own)
        self.begin = self._producer.begin_transaction

    def init(self) -> None:
        self._producer.init_transactions(CALL_SECONDS)

    def send(self, topic: str, partition: int, key: str, value: str) -> None:
        self._producer.produce(topic, value, key, partition)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        pass

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_SECONDS)

    def abort(self) -> None:
        """librdkafka 2.16 asks to abort what is not begun, and fails for good, where the coordinator still ends the transaction
        before and has refused the partitions of this one (https://github.com/confluentinc/librdkafka/issues/4849).
        """
        self._producer.flush(CALL_SECONDS)
        self._producer.abort_transaction(CALL_SECONDS)

    def close(self) -> None:
        self._producer.purge()


class IdempotentWriter:
    """Sends numbered records with acks=all to every place in turn; each is acknowledged, or nobody knows of it.

    One request at a time. A new leader may refuse the first of several, because it does not lead yet, and take none of the
    rest, because the first is missing: librdkafka 2.16 then goes on under a new epoch, and writes again what the leader
    before had appended (https://github.com/confluentinc/librdkafka/issues/4953).
    """

    def __init__(self, name: str, bootstrap: str, places: list[Place]) -> None:
        self.name = name
        self.acknowledged: set[Record] = set()
        self.unknown: set[Record] = set()
        self.fatal: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._places = places

    def write_until(self, stop: threading.Event) -> None:
        producer, number = self._new_producer(), 0
        while not stop.wait(PAUSE_SECONDS):
            for _ in range(BATCH):
                number += 1
                place = self._places[number % len(self._places)]
                record = (*place, f"{self.name}:{number}")
                self.unknown.add(record)
                producer.produce(*_topic_and_value(record), partition=place[1], on_delivery=self._hearer(record))
            producer.poll(0)
            if self.fatal:
                break
        producer.flush(JOIN_SECONDS)

    def _new_producer(self) -> Producer:
        own = {"enable.idempotence": True, "max.in.flight": 1, "linger.ms": 5, "error_cb": self._hear_error}
        return Producer(settings_of(self._bootstrap) | own)

    def _hear_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal.append(error)

    def _hearer(self, record: Record) -> Callable[[KafkaError | None, Message], None]:
        def hear(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.unknown.discard(record)
                self.acknowledged.add(record)

        return hear


def _topic_and_value(record: Record) -> tuple[str, bytes]:
    return record[0], record[2].encode()


class CommittedReader:
    """A member of a group that reads what is committed: more than once where it begins again, and never what is aborted."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.records: Counter[Record] = Counter()
        self._consumer = Consumer(_of_reader(bootstrap, group))
        self._topic = topic

    def read_until(self, stop: threading.Event) -> None:
        self._consumer.subscribe([self._topic])
        while not stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.records[_record(message)] += 1
        self._consumer.close()


def read_all(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> Counter[Record]:
    """Every record from the first to the last stable one, and how often it is there."""
    consumer = Consumer(_of_reader(bootstrap, "all") | {"enable.partition.eof": True, "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: Counter[Record] = Counter()
    unfinished = set(range(partitions))

    def is_read() -> bool:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found[_record(message)] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
        return not unfinished

    until(is_read, 60)
    consumer.close()
    return found


def _record(message: Message) -> Record:
    return message.topic(), message.partition(), message.value().decode()


def _of_reader(bootstrap: str, group: str) -> dict[str, Any]:
    return settings_of(bootstrap) | {
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "session.timeout.ms": 6000,
        "fetch.wait.max.ms": 50,
    }


class Load:
    """On one topic: two idempotent producers, transactional ones of these ids and one that copies, and a reader in a group."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, transactional_ids: list[str], group: str, seed: int
    ) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        places = [(topic, partition) for partition in range(partitions)]
        self.writers = [IdempotentWriter(f"writer-{number}", bootstrap, places) for number in range(2)]
        self.workers = [
            Worker(name, self._transactional, places, (topic, 0), seed * 100 + number, keeps_its_producer=True)
            for number, name in enumerate((*transactional_ids, COPIER))
        ]
        self.reader = CommittedReader(bootstrap, group, topic)

    def _transactional(self, name: str) -> LoadProducer:
        return (OwnProducer if name == COPIER else TransactionalProducer)(self._bootstrap, name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Until the block ends; then every producer ends what it was doing."""
        stop = threading.Event()
        tasks: list[Callable[[threading.Event], None]] = [writer.write_until for writer in self.writers]
        tasks += [self._transactions_of(worker) for worker in self.workers]
        tasks.append(self.reader.read_until)
        threads = [threading.Thread(target=task, args=(stop,), daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(JOIN_SECONDS)
        assert not any(thread.is_alive() for thread in threads), "a client never came back"

    @staticmethod
    def _transactions_of(worker: Worker) -> Callable[[threading.Event], None]:
        def write_until(stop: threading.Event) -> None:
            while not stop.is_set():
                _settle(worker)
                worker.write_until(stop)
            _settle(worker)

        return write_until

    def progress(self) -> tuple[int, ...]:
        """What each client has got done so far."""
        return (
            *(len(writer.acknowledged) for writer in self.writers),
            *(worker.committed() for worker in self.workers),
            self.reader.records.total(),
        )

    def goes_on(self) -> None:
        """Wait until every client has got something done."""
        before = self.progress()
        try:
            until(lambda: all(now > then for now, then in zip(self.progress(), before, strict=True)), PROGRESS_SECONDS)
        except AssertionError:
            raise AssertionError(f"the load does not go on: {before}, then {self.progress()}") from None

    def errors(self) -> list[str]:
        """What producers were told that was not a success. Ask when the load has ended."""
        said = [f"{worker.name}: {error!r}" for worker in self.workers for error in worker.errors]
        for writer in self.writers:
            said += [f"{writer.name}: {error}" for error in writer.fatal]
            said += [f"{writer.name} was not told that {record} is there" for record in writer.unknown]
        return said

    def writers_go_on(self) -> None:
        """Wait for the idempotent producers alone: others may hold on to a broker that accepts connections and answers nothing."""
        before = [len(writer.acknowledged) for writer in self.writers]
        until(
            lambda: all(len(one.acknowledged) > then for one, then in zip(self.writers, before, strict=True)),
            PROGRESS_SECONDS,
        )

    def _is_decided(self) -> bool:
        """A commit is answered before its last marker is written: until then readers do not come to the end."""
        everything, committed = (self._ends(isolation) for isolation in IsolationLevel)
        return everything == committed

    def _ends(self, isolation: IsolationLevel) -> dict[int, int]:
        places = {TopicPartition(self._topic, index): OffsetSpec.latest() for index in range(self._partitions)}
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        answers = admin.list_offsets(places, isolation_level=isolation, request_timeout=30)
        return {place.partition: answer.result(30).offset for place, answer in answers.items()}

    def problems(self) -> list[str]:
        """What is wrong with what is there in the end."""
        until(self._is_decided)
        found = read_all(self._bootstrap, self._topic, self._partitions)
        problems = [f"{record} is there {count} times" for record, count in found.items() if count > 1]
        for writer in self.writers:
            problems += [f"{writer.name} failed: {error}" for error in writer.fatal]
            missing = writer.acknowledged - found.keys()
            problems += [f"{record} was acknowledged and is not there" for record in missing]
        allowed = {record for writer in self.writers for record in writer.acknowledged | writer.unknown}
        for worker in self.workers:
            for number, wanted in worker.wanted.items():
                there, outcome = wanted & found.keys(), worker.outcomes[number]
                right = {Outcome.COMMITTED: (wanted,), Outcome.ABSENT: (set(),), Outcome.UNKNOWN: (wanted, set())}
                if there not in right[outcome]:
                    problems.append(f"{worker.name} {number}, {outcome.value}: {len(there)} of {len(wanted)} there")
                allowed |= there
        problems += [f"nobody wrote {record}" for record in found.keys() - allowed]
        problems += [f"{record} was read, and is not committed" for record in self.reader.records.keys() - found.keys()]
        return problems


def _settle(worker: Worker) -> None:
    """Be the only producer of the id, with nothing left open, whatever it takes."""

    def is_settled() -> bool:
        try:
            worker.settle()
        except Exception:  # noqa: BLE001 - each client has its own errors
            worker.drop()
            return False
        return True

    until(is_settled, JOIN_SECONDS)
