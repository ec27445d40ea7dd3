"""Members of consumer groups, as the clients for Python have them, behind one face: poll, commit, close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import aiokafka
import confluent_kafka
import kafka.errors
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaException
from kafka.consumer.group import KafkaConsumer

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

    @property
    def rebalances(self) -> int:
        """How often it was assigned anything."""
        ...

    def poll(self) -> list[Got]: ...
    def commit(self) -> bool: ...
    def assigned(self) -> set[int]: ...
    def close(self) -> None: ...


Subscribe = Callable[..., Subscriber]


class ConfluentSubscriber:
    timeouts: ClassVar[dict[str, Any]] = {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS}

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        reset: str = "earliest",
        instance_id: str = "",
        **settings: Any,
    ) -> None:
        self.rebalances = 0
        if instance_id:
            settings["group.instance.id"] = instance_id
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


class CountedRebalances:
    """How often a member was assigned anything; kafka-python and aiokafka each derive the listener they want."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_assigned(self, _assigned: object) -> None:
        self.count += 1

    def on_partitions_revoked(self, _revoked: object) -> None: ...


class KafkaPythonRebalances(CountedRebalances, kafka.ConsumerRebalanceListener): ...


class AiokafkaRebalances(CountedRebalances, aiokafka.ConsumerRebalanceListener): ...


class KafkaPythonSubscriber:
    """It may assign before it knows that the topic is there, and then waits for ever; so it is made to know first.

    When a poll runs out while a leader is joining again, because it has learnt of the topic's partitions, the next one sees
    no need to join: the join is never finished, and no heartbeat is sent (kafka-python 3.0.12). So a poll lasts longer.
    """

    POLL_MS = 1000

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = "") -> None:
        self._rebalances = KafkaPythonRebalances()
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance_id or None,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=50,
        )
        assert self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic], listener=self._rebalances)

    @property
    def rebalances(self) -> int:
        return self._rebalances.count

    def poll(self) -> list[Got]:
        found = self._consumer.poll(timeout_ms=self.POLL_MS)
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

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest", instance_id: str = "") -> None:
        self._rebalances = AiokafkaRebalances()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka-member", daemon=True)
        self._thread.start()
        self._consumer: aiokafka.AIOKafkaConsumer = self._run(self._start(bootstrap, group, topic, reset, instance_id))

    async def _start(
        self, bootstrap: str, group: str, topic: str, reset: str, instance_id: str
    ) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance_id or None,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=50,
        )
        consumer.subscribe([topic], listener=self._rebalances)
        await consumer.start()
        return consumer

    @property
    def rebalances(self) -> int:
        return self._rebalances.count

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
