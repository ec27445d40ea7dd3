"""Members of consumer groups, as several kinds of clients have them, behind one face: poll, commit, close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, Protocol

import aiokafka
import confluent_kafka
import kafka.errors
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaException
from kafka.consumer.group import KafkaConsumer

from tests.conformance.clients import JavaProcess

Place = tuple[int, int]
"""A partition and an offset."""

HEARTBEAT_MS, SESSION_MS = 200, 10_000


@dataclass(frozen=True, slots=True)
class Got:
    partition: int
    offset: int
    value: str


class Subscriber(Protocol):
    """A member. `commit` says whether everything that was polled is committed now: a rebalance may be in the way."""

    def poll(self) -> list[Got]: ...
    def commit(self) -> bool: ...
    def assigned(self) -> set[int]: ...
    def close(self) -> None: ...


Subscribe = Callable[..., Subscriber]


class ConfluentSubscriber:
    timeouts: ClassVar[dict[str, Any]] = {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS}

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest", **settings: Any) -> None:
        self.rebalances = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": reset,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                **self.timeouts,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, _consumer: object, _partitions: object) -> None:
        self.rebalances += 1

    def poll(self) -> list[Got]:
        messages = self._consumer.consume(100, 0.05)
        failed = [message.error() for message in messages if message.error() is not None]
        assert not failed, failed
        return [Got(one.partition(), one.offset(), one.value().decode()) for one in messages]

    def commit(self) -> bool:
        try:
            return all(one.error is None for one in self._consumer.commit(asynchronous=False))
        except KafkaException:
            return False

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class ConfluentCooperative(ConfluentSubscriber):
    """KIP-429: a member gives up only what is to be another's, and goes on reading the rest."""

    def __init__(self, *where: str, **settings: Any) -> None:
        super().__init__(*where, **settings, **{"partition.assignment.strategy": "cooperative-sticky"})


class ConfluentConsumer(ConfluentSubscriber):
    """KIP-848: the broker assigns, and says how often it is to be heard from."""

    timeouts: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}


class JavaConsumer:
    """The same with the Java client. One process has them all, and does one thing at a time."""

    _lock = threading.Lock()
    _handles = count()

    def __init__(
        self,
        process: JavaProcess,
        bootstrap: str,
        group: str,
        topic: str,
        reset: str = "earliest",
        protocol: str = "consumer",
        instance_id: str = "",
    ) -> None:
        self._process = process
        self._handle = f"member-{next(self._handles)}"
        self._ask("subscribe", bootstrap, group, topic, reset, protocol, instance_id)

    def _ask(self, command: str, *words: str) -> list[str]:
        with self._lock:
            return self._process.ask(command, self._handle, *words)

    def poll(self) -> list[Got]:
        words = self._ask("poll")
        return [Got(int(words[at]), int(words[at + 1]), words[at + 2]) for at in range(0, len(words), 3)]

    def commit(self) -> bool:
        return self._ask("keep") == ["yes"]

    def assigned(self) -> set[int]:
        return set(map(int, self._ask("assigned")))

    def close(self) -> None:
        self._ask("leave")


class KafkaPythonSubscriber:
    """It may assign before it knows that the topic is there, and then waits for ever; so it is made to know first."""

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest") -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=50,
        )
        assert self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic])

    def poll(self) -> list[Got]:
        found = self._consumer.poll(timeout_ms=50)
        return [Got(one.partition, one.offset, one.value.decode()) for records in found.values() for one in records]

    def commit(self) -> bool:
        try:
            self._consumer.commit()
        except kafka.errors.KafkaError:
            return False
        return True

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class AiokafkaSubscriber:
    """Its event loop runs in a thread of its own: heartbeats go on between two calls."""

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka-member", daemon=True)
        self._thread.start()
        self._consumer: aiokafka.AIOKafkaConsumer = self._run(self._start(bootstrap, group, topic, reset))

    async def _start(self, bootstrap: str, group: str, topic: str, reset: str) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        return consumer

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def poll(self) -> list[Got]:
        found = self._run(self._consumer.getmany(timeout_ms=50))
        return [Got(one.partition, one.offset, one.value.decode()) for records in found.values() for one in records]

    def commit(self) -> bool:
        try:
            self._run(self._consumer.commit())
        except AiokafkaError:
            return False
        return True

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


SUBSCRIBERS: dict[str, Subscribe] = {
    "confluent-kafka, range": ConfluentSubscriber,
    "confluent-kafka, cooperative-sticky": ConfluentCooperative,
    "confluent-kafka, consumer protocol": ConfluentConsumer,
    "kafka-python": KafkaPythonSubscriber,
    "aiokafka": AiokafkaSubscriber,
}
