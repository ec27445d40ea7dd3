"""The administrator of a run: makes, grows and deletes topics, deletes their records, and changes their settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from oncelog.client import requests
from oncelog.client.admin import operations as admin
from oncelog.client.admin import transactions
from oncelog.client.errors import BrokerRefused, ClientError, OffsetOutOfRange
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Sleep
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.values import (
    ConfigChange,
    ConfigKind,
    ConfigResource,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    TopicPartition,
)
from oncelog.simulation.broker_node import SimulationFailure
from oncelog.simulation.clients import ClientNode, SimulatedConsumer, SimulatedProducer
from oncelog.simulation.history import Outcome, WrittenTogether
from oncelog.simulation.short_lived import REBORN, TRIMMED, reborn_topic
from oncelog.simulation.transport import Play, Until
from oncelog.simulation.workload import INPUT, Shared, end_in_doubt, send_record

NEVER_THERE_BYTES = 1_000_000
MOMENT_MS = 6.0


class Users:
    """Clients that use the topic when it is deleted. Each of their plays goes on beside the administrator's."""

    def __init__(self, node: ClientNode, shared: Shared) -> None:
        self._node = node
        self._shared = shared
        self._under_way = 0

    async def begin(self) -> None:
        """Come back when requests of theirs are on their way, or wait at the broker."""
        node = self._node
        consumer = SimulatedConsumer(node, IsolationLevel.READ_UNCOMMITTED, min_bytes=NEVER_THERE_BYTES)
        self._beside(self._read(consumer))
        producer = SimulatedProducer(node, ProducerSettings(f"id of {node.name}", 15_000, 0))
        try:
            await producer.init()
        except ClientError:
            node.forget(producer.transport)
            raise
        producer.begin()
        written = self._shared.history.write(node.name, is_transactional=True)
        for _ in range(node.random.randrange(1, 4)):
            await send_record(node, self._shared, producer, written, REBORN)
        self._beside(self._end(producer, written))
        await Sleep(0.0, MOMENT_MS)

    async def are_done(self) -> None:
        """Come back when they have been answered."""
        await Until(lambda: not self._under_way)

    def _beside(self, play: Play) -> None:
        transport = self._node.transport()

        def over() -> None:
            self._under_way -= 1
            self._node.forget(transport)
            self._node.changed()

        self._under_way += 1
        self._node.background(transport, play, over)

    async def _read(self, consumer: SimulatedConsumer) -> None:
        """Whatever comes of it is judged where it is read again and again."""
        try:
            await consumer.assign({TopicPartition(REBORN, 0): OffsetSpec.EARLIEST})
            await consumer.poll()
        except ClientError:
            pass
        await consumer.close()

    async def _end(self, producer: SimulatedProducer, written: WrittenTogether) -> None:
        try:
            if self._node.random.random() < 0.5:
                await producer.flush()
                await Sleep(0.0, MOMENT_MS)
            await producer.flush()
            written.outcome = Outcome.ENDING
            await producer.commit()
            written.outcome = Outcome.COMMITTED
            self._shared.short_lived.committed(written, self._shared.topic_id)
        except ClientError as error:
            end_in_doubt(written, error)
        finally:
            self._node.forget(producer.transport)


SCRATCH = "scratch"
ALTERED: Mapping[str, tuple[str, ...]] = {
    "segment.bytes": ("1048576", "1073741824"),
    "segment.ms": ("300", "5000", "604800000"),
    "index.interval.bytes": ("0", "4096"),
    "flush.messages": ("1", "9223372036854775807"),
    "compression.type": ("producer", "zstd", "uncompressed"),
}
"""Settings of a topic that may have any of these values at any time."""


@dataclass(slots=True)
class DrawnSettings:
    """The settings that a topic must have: those whose change was answered, and that no other request may still change."""

    known: dict[str, str] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    """How often somebody asked for any value of it: there may be two administrators."""

    def check(self, found: Mapping[str, str]) -> None:
        for name, value in self.known.items():
            if name not in self.doubtful and found.get(name) != value:
                raise SimulationFailure(f"{INPUT}: {name} was set to {value}, and is {found.get(name)}")


class Administrator:
    """`told` hears of each change that was answered, and that is so from then on."""

    def __init__(self, node: ClientNode, shared: Shared, settings: DrawnSettings, told: Callable[[], None]) -> None:
        self._node = node
        self._told = told
        self._shared = shared
        self._settings = settings
        self._cluster = Cluster(node.settings)

    async def play(self) -> None:
        while not self._shared.is_written:
            await Sleep(50, 1_500)
            try:
                await self._action(self._node.random)()
            except (BrokerRefused, OffsetOutOfRange):
                continue

    def _action(self, random: Random) -> Callable[[], Play]:
        cluster = self._cluster
        return random.choice(
            (
                lambda: admin.create_topics(cluster, [NewTopic(SCRATCH, 1, 1)]),
                lambda: admin.delete_topics(cluster, [SCRATCH]),
                lambda: self._use_scratch(random),
                lambda: admin.create_topics(cluster, [reborn_topic(random, {"segment.ms": "1000"})]),
                self._delete,
                self._delete_in_use,
                lambda: self._grow(random.randrange(2, 5)),
                lambda: self._trim(random),
                lambda: self._trim(random),
                lambda: self._alter(random),
                lambda: admin.describe_configs(cluster, topics=[INPUT]),
                lambda: transactions.list_transactions(cluster),
                lambda: admin.describe_topics(cluster, None),
            )
        )

    async def _delete(self) -> None:
        """And make it again at once, now and then: the same name is another topic."""
        shared = self._shared
        topic_id = shared.topic_id(REBORN)
        await admin.delete_topics(self._cluster, [REBORN])
        if topic_id is not None:
            shared.short_lived.deleted_ids.add(topic_id)
        self._told()
        if self._node.random.random() < 0.5:
            await admin.create_topics(self._cluster, [reborn_topic(self._node.random, {})])

    async def _delete_in_use(self) -> None:
        """While requests about it wait."""
        if self._shared.topic_id(REBORN) is None:
            await admin.create_topics(self._cluster, [reborn_topic(self._node.random, {})])
        users = Users(self._node, self._shared)
        await users.begin()
        with suppress(BrokerRefused):
            await self._delete()
        await users.are_done()

    async def _grow(self, count: int) -> None:
        shared = self._shared
        topic_id = shared.topic_id(REBORN)
        await admin.create_partitions(self._cluster, {REBORN: count})
        if topic_id is not None and topic_id == shared.topic_id(REBORN):
            shared.short_lived.grown[topic_id] = max(count, shared.short_lived.grown.get(topic_id, 0))
            self._told()

    async def _trim(self, random: Random) -> None:
        partition = TopicPartition(TRIMMED, 0)
        history = self._shared.short_lived
        offset = history.a_place_to_trim_at(random, partition)
        if offset is not None:
            lowest = await admin.delete_records(self._cluster, {partition: offset})
            if lowest[partition] < offset:
                raise SimulationFailure(f"{partition} begins at {lowest[partition]}, and {offset} was asked for")
            history.deleted_below(partition, lowest[partition])
            self._told()

    async def _alter(self, random: Random) -> None:
        name = random.choice(list(ALTERED))
        value = random.choice(ALTERED[name])
        settings, node = self._settings, self._node
        is_sure = name not in settings.doubtful
        settings.doubtful.add(name)
        settings.asked[name] += 1
        asked = settings.asked[name]
        before = node.sent(requests.INCREMENTAL_ALTER_CONFIGS)
        resource = ConfigResource(ConfigKind.TOPIC, INPUT)
        await admin.alter_configs(self._cluster, resource, [ConfigChange(name, value)])
        settings.known[name] = value
        if is_sure and settings.asked[name] == asked and node.sent(requests.INCREMENTAL_ALTER_CONFIGS) == before + 1:
            settings.doubtful.discard(name)
        self._told()

    async def _use_scratch(self, random: Random) -> None:
        node = self._node
        producer = SimulatedProducer(node, ProducerSettings(linger_ms=0, delivery_timeout_ms=5_000))
        try:
            for _ in range(random.randrange(1, 20)):
                await producer.send(SCRATCH, 0, b"scratch")
            await producer.flush()
            await admin.delete_records(self._cluster, {TopicPartition(SCRATCH, 0): -1})
        except ClientError:
            return
        finally:
            node.forget(producer.transport)
