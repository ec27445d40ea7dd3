"""Kafka clients behind one face, so that a scenario is written once and every client goes through it: those of Python.

Each is the library as its users have it, with its own protocol generation: confluent-kafka (librdkafka), kafka-python,
aiokafka and kafkajs add partitions to a transaction themselves; the Java client and franz-go leave that to the broker
(KIP-890). Those that are not for Python are in spoken_clients.py.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import ProducerFenced as AiokafkaFenced
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import errors as kafka_errors
from kafka.consumer.group import KafkaConsumer
from kafka.structs import OffsetAndMetadata

from harness.conformance.administrators import (
    Administrator,
    AiokafkaAdministrator,
    ConfluentAdministrator,
    KafkaPythonAdministrator,
)
from harness.conformance.subscribers import AiokafkaSubscriber, ConfluentSubscriber, KafkaPythonSubscriber, Subscriber

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
TIMEOUT_SECONDS = 30


class FencedError(Exception):
    """A newer producer has the transactional id: each client's own error for it, as one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a consumer got it."""

    offset: int
    key: str
    value: str
    header: str


class TransactionalProducer(Protocol):
    """A producer. Without a transactional id it is idempotent only, or not even that with other acks than "all", and only
    `send`, `flush` and `close` are used.
    """

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None: ...
    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ClientUnderTest(Protocol):
    name: str
    generation: int
    """Of the transaction protocol: 2 where the client has an epoch for each transaction (KIP-890)."""
    has_static_members: bool

    def producer(
        self, bootstrap: str, transactional_id: str | None = None, codec: str = "none", acks: str = "all"
    ) -> TransactionalProducer: ...

    def read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        """Every record from offset 0 to the one whose value is `until`."""
        ...

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int: ...

    def committed_offset(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        """The group's offset, or -1."""
        ...

    def subscribe(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> Subscriber: ...

    def administrator(self, bootstrap: str) -> Administrator: ...


# --------------------------------------------------------------------------------------------------- confluent-kafka


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str | None, codec: str, acks: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": acks == "all",
            "acks": acks,
            "compression.type": codec,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 200,
            # librdkafka 2.16 forgets its only broker while that restarts, and then sends TxnOffsetCommit to the one it
            # forgot, for ever and without a timeout.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        if transactional_id:
            settings["transactional.id"] = transactional_id
        self._producer = confluent_kafka.Producer(settings)
        self._failed: list[KafkaError] = []
        self._groups: dict[str, confluent_kafka.Consumer] = {}

    def init(self) -> None:
        self._producer.init_transactions(TIMEOUT_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None:
        self._producer.produce(
            topic, value, key, partition, headers=[("header", header.encode())], on_delivery=self._delivered
        )

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """The group needs no member: a consumer that never connects says all there is to say of it."""
        if group not in self._groups:
            settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0}
            self._groups[group] = confluent_kafka.Consumer(settings)
        metadata = self._groups[group].consumer_group_metadata()
        place = TopicPartition(topic, partition, offset)
        self._producer.send_offsets_to_transaction([place], metadata, TIMEOUT_SECONDS)

    def flush(self) -> None:
        left = self._producer.flush(TIMEOUT_SECONDS)
        assert left == 0, f"{left} records were not delivered"
        self._raise_failures()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise _confluent(error) from error

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_SECONDS)
        self._failed.clear()

    def close(self) -> None:
        self._producer.purge()
        with suppress(KafkaException):  # a fenced producer says so once more
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _raise_failures(self) -> None:
        if self._failed:
            raise _confluent(KafkaException(self._failed[0]))


def _confluent(error: KafkaException) -> Exception:
    code = error.args[0].code()
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return FencedError(str(error)) if code in fenced else error


class Confluent:
    name = "confluent-kafka"
    generation = 1
    has_static_members = True

    def subscribe(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> Subscriber:
        return ConfluentSubscriber(bootstrap, group, topic, reset, instance_id)

    def administrator(self, bootstrap: str) -> Administrator:
        return ConfluentAdministrator(bootstrap)

    def producer(
        self, bootstrap: str, transactional_id: str | None = None, codec: str = "none", acks: str = "all"
    ) -> TransactionalProducer:
        return ConfluentProducer(bootstrap, transactional_id, codec, acks)

    def _consumer(self, bootstrap: str, isolation: str, group: str = "conformance") -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )

    def read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        consumer, found = self._consumer(bootstrap, isolation), []
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (found and found[-1].value == until):
            assert time.monotonic() < deadline, f"no record {until}, only {found}"
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                found.append(_confluent_seen(message))
        consumer.close()
        return found

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        level = confluent_kafka.IsolationLevel[isolation.upper()]
        place = TopicPartition(topic, partition)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        answer = admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=level, request_timeout=TIMEOUT_SECONDS
        )
        return int(answer[place].result(TIMEOUT_SECONDS).offset)

    def committed_offset(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        consumer = self._consumer(bootstrap, READ_COMMITTED, group)
        (found,) = consumer.committed([TopicPartition(topic, partition)], TIMEOUT_SECONDS)
        consumer.close()
        assert found.error is None, found.error
        return -1 if found.offset < 0 else int(found.offset)


def _confluent_seen(message: confluent_kafka.Message) -> Seen:
    headers = dict(message.headers() or [])
    return Seen(
        message.offset(),
        (message.key() or b"").decode(),
        message.value().decode(),
        (headers.get("header") or b"").decode(),
    )


# ------------------------------------------------------------------------------------------------------ kafka-python


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str | None, codec: str, acks: str) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=acks == "all",
            acks=acks if acks == "all" else int(acks),
            transactional_id=transactional_id,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        self._sent: list[Any] = []

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None:
        headers = [("header", header.encode())]
        self._sent.append(self._producer.send(topic, value.encode(), key.encode(), headers, partition))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = kafka.TopicPartition(topic, partition)
        self._producer.send_offsets_to_transaction({place: OffsetAndMetadata(offset, "", -1)}, group)

    def flush(self) -> None:
        self._fencing(self._flush)

    def commit(self) -> None:
        self._fencing(self._flush)
        self._fencing(self._producer.commit_transaction)

    def abort(self) -> None:
        self._producer.abort_transaction()
        self._sent.clear()

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _flush(self) -> None:
        self._producer.flush(TIMEOUT_SECONDS)
        for future in self._sent:
            future.get(TIMEOUT_SECONDS)
        self._sent.clear()

    def _fencing(self, call: Any) -> None:
        try:
            call()
        except (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError) as error:
            raise FencedError(str(error)) from error


class KafkaPython:
    name = "kafka-python"
    generation = 1
    has_static_members = True

    def subscribe(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> Subscriber:
        return KafkaPythonSubscriber(bootstrap, group, topic, reset, instance_id)

    def administrator(self, bootstrap: str) -> Administrator:
        return KafkaPythonAdministrator(bootstrap)

    def producer(
        self, bootstrap: str, transactional_id: str | None = None, codec: str = "none", acks: str = "all"
    ) -> TransactionalProducer:
        return KafkaPythonProducer(bootstrap, transactional_id, codec, acks)

    def _consumer(self, bootstrap: str, isolation: str, group: str | None = None) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )

    def read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        consumer, found = self._consumer(bootstrap, isolation), []
        place = kafka.TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, 0)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (found and found[-1].value == until):
            assert time.monotonic() < deadline, f"no record {until}, only {found}"
            for records in consumer.poll(timeout_ms=200).values():
                found += [_python_seen(record) for record in records]
        consumer.close()
        return found

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        consumer = self._consumer(bootstrap, isolation)
        place = kafka.TopicPartition(topic, partition)
        offset = consumer.end_offsets([place])[place]
        consumer.close()
        return int(offset)

    def committed_offset(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        consumer = self._consumer(bootstrap, READ_COMMITTED, group)
        offset = consumer.committed(kafka.TopicPartition(topic, partition))
        consumer.close()
        return -1 if offset is None else int(offset)


def _python_seen(record: Any) -> Seen:
    header = dict(record.headers).get("header") or b""
    return Seen(record.offset, (record.key or b"").decode(), record.value.decode(), header.decode())


# ---------------------------------------------------------------------------------------------------------- aiokafka


class Loop:
    """An event loop in a thread: aiokafka's calls, one after the other, from tests that do not await."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True).start()

    def __call__(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS * 2)


class AiokafkaProducer:
    def __init__(self, run: Loop, bootstrap: str, transactional_id: str | None, codec: str, acks: str) -> None:
        self._run = run
        self._sent: list[Any] = []
        self._producer: aiokafka.AIOKafkaProducer = run(self._open(bootstrap, transactional_id, codec, acks))
        if transactional_id is None:
            self.init()

    async def _open(
        self, bootstrap: str, transactional_id: str | None, codec: str, acks: str
    ) -> aiokafka.AIOKafkaProducer:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=acks == "all",
            acks=acks if acks == "all" else int(acks),
            transactional_id=transactional_id,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )

    def init(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, key: str, value: str, header: str = "") -> None:
        headers = [("header", header.encode())]
        sending = self._producer.send(topic, value.encode(), key.encode(), partition, headers=headers)
        self._sent.append(self._run(sending))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = aiokafka.TopicPartition(topic, partition)
        self._run(self._producer.send_offsets_to_transaction({place: offset}, group))

    def flush(self) -> None:
        self._fencing(self._flush())

    def commit(self) -> None:
        self._fencing(self._flush())
        self._fencing(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())
        self._sent.clear()

    def close(self) -> None:
        self._run(self._producer.stop())

    async def _flush(self) -> None:
        await self._producer.flush()
        for future in self._sent:
            await future
        self._sent.clear()

    def _fencing(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self._run(work)
        except AiokafkaFenced as error:
            raise FencedError(str(error)) from error


class Aiokafka:
    name = "aiokafka"
    generation = 1
    has_static_members = True

    def __init__(self) -> None:
        self._run = Loop()

    def subscribe(
        self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = ""
    ) -> Subscriber:
        return AiokafkaSubscriber(bootstrap, group, topic, reset, instance_id)

    def administrator(self, bootstrap: str) -> Administrator:
        return AiokafkaAdministrator(self._run, bootstrap)

    def producer(
        self, bootstrap: str, transactional_id: str | None = None, codec: str = "none", acks: str = "all"
    ) -> TransactionalProducer:
        return AiokafkaProducer(self._run, bootstrap, transactional_id, codec, acks)

    async def _consumer(self, bootstrap: str, isolation: str, group: str | None = None) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        return consumer

    def read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        found: list[Seen] = self._run(self._read(bootstrap, isolation, topic, partition, until))
        return found

    async def _read(self, bootstrap: str, isolation: str, topic: str, partition: int, until: str) -> list[Seen]:
        consumer, found = await self._consumer(bootstrap, isolation), []
        place = aiokafka.TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, 0)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (found and found[-1].value == until):
            assert time.monotonic() < deadline, f"no record {until}, only {found}"
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [_python_seen(record) for record in records]
        await consumer.stop()
        return found

    def end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        return int(self._run(self._end_offset(bootstrap, isolation, topic, partition)))

    async def _end_offset(self, bootstrap: str, isolation: str, topic: str, partition: int) -> int:
        consumer = await self._consumer(bootstrap, isolation)
        place = aiokafka.TopicPartition(topic, partition)
        found = await consumer.end_offsets([place])
        await consumer.stop()
        return int(found[place])

    def committed_offset(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        return int(self._run(self._committed(bootstrap, group, topic, partition)))

    async def _committed(self, bootstrap: str, group: str, topic: str, partition: int) -> int:
        consumer = await self._consumer(bootstrap, READ_COMMITTED, group)
        offset = await consumer.committed(aiokafka.TopicPartition(topic, partition))
        await consumer.stop()
        return -1 if offset is None else int(offset)
