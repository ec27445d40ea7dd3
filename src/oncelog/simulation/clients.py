"""The real client in a simulated process: only its transport is another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from oncelog.client import requests
from oncelog.client.consumer.core import ConsumerCore
from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.consumer.offsets import parse_reset
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.settings import Callbacks, group_settings
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Flow, Now, WallClock
from oncelog.client.net.settings import ClientSettings
from oncelog.client.producer.accumulator import ProducerBatch
from oncelog.client.producer.core import ProducerCore
from oncelog.client.producer.settings import ProducerSettings
from oncelog.client.requests import Api
from oncelog.client.values import GroupMetadata, IsolationLevel, OffsetAndMetadata, TopicPartition
from oncelog.records import Record
from oncelog.simulation.events import EventQueue, Process
from oncelog.simulation.network import Network
from oncelog.simulation.on_the_way import OnTheWay
from oncelog.simulation.transport import Play, SimulatedTransport, Until

SESSION_MS, HEARTBEAT_MS = 8_000, 2_000
OLD_SHARE = 0.3
OLD_VERSIONS = {requests.FETCH: (10, 11), requests.FIND_COORDINATOR: (1, 2)}
"""The versions of an older client, at most."""
FETCH_BYTES = (2_500, 20_000, 100_000)
"""Limits for one partition of a Fetch: an answer may end at any batch."""


class ClientNode:
    """A node whose process holds one client. When it is killed, its next process begins the play again."""

    def __init__(
        self,
        name: str,
        queue: EventQueue,
        network: Network,
        settings: ClientSettings,
        random: Random,
        play: Callable[[ClientNode], Play],
        failed: Callable[[BaseException], None],
        died: Callable[[str], None],
    ) -> None:
        """`died` hears of the end of each process that did not come to the end of its play."""
        self.name = name
        self.random = random
        self.settings = settings
        self.is_done = False
        self.starts = 0
        self.errors = 0
        self._queue = queue
        self._network = network
        self._play = play
        self._failed = failed
        self._died = died
        self._transports: list[SimulatedTransport] = []
        self.process = Process(queue, name, failed)
        self.process.is_alive = False
        self._on_the_way = OnTheWay(name, failed)
        is_old = random.random() < OLD_SHARE
        self._versions_max = {api: random.choice(versions) for api, versions in OLD_VERSIONS.items()} if is_old else {}

    def start(self) -> None:
        """Begin; a play that an error of the client ends begins again, as a program does that somebody watches over."""
        if self.process.is_alive or self.is_done:
            return
        self.starts += 1
        self.process = Process(self._queue, self.name, self._failed)
        self._on_the_way = OnTheWay(self.name, self._failed)
        self.process.run(self._begin)

    def kill(self) -> None:
        self.process.is_alive = False
        self._network.process_ended(self.process, silently=False)
        self._transports.clear()
        self._died(self.name)

    def stand_still(self, duration_ms: float) -> None:
        """The whole process does nothing for a while, heartbeats neither."""
        self.process.paused_until_ms = self._queue.now_ms + duration_ms

    def transport(self) -> SimulatedTransport:
        made = SimulatedTransport(
            self.process, self._network, self.settings, self.random, self._on_the_way, self._versions_max
        )
        self._transports.append(made)
        return made

    def forget(self, transport: SimulatedTransport) -> None:
        """Its client was closed."""
        transport.close()
        if transport in self._transports:
            self._transports.remove(transport)

    def sent(self, api: Api) -> int:
        """How many requests of a kind the transports that are in use have sent: the same one again counts again."""
        return sum(transport.sent[api.name] for transport in self._transports)

    def changed(self) -> None:
        """Look again whether the play can go on."""
        for transport in self._transports:
            transport.changed()

    def background(self, transport: SimulatedTransport, play: Play, over: Callable[[], None]) -> None:
        """Run what goes on beside the play. Such a flow raises nothing."""

        def done(_: Any, error: Exception | None) -> None:
            if error is not None:
                self._failed(error)
            over()

        transport.run(play, done)

    def _begin(self) -> None:
        self.transport().run(self._play(self), self._over)

    def _over(self, _: Any, error: Exception | None) -> None:
        if error is None:
            self.is_done = True
            return
        self.errors += 1
        self._queue.note(f"{self.name} {type(error).__name__}")
        for transport in list(self._transports):
            self.forget(transport)
        self.kill()
        self._queue.after(self.random.uniform(100, 2_000), f"{self.name} start", self.start)


@dataclass(slots=True)
class Sent:
    """A record on its way."""

    batch: ProducerBatch
    place: int

    def offset(self) -> int | None:
        """The offset of the record, if an answer said it."""
        found, _ = self.batch.outcome(self.place) if self.batch.is_done else (None, None)
        return None if found is None or found.offset < 0 else found.offset


class SimulatedProducer:
    """The producer; see AsyncProducer, whose methods these are."""

    def __init__(self, node: ClientNode, settings: ProducerSettings) -> None:
        self._node = node
        self.transport = node.transport()
        self._core = ProducerCore(Cluster(node.settings), settings, node.changed)
        self._has_pump = False
        self._pump_is_over = False

    async def send(self, topic: str, partition: int, value: bytes | None, key: bytes | None = None) -> Sent:
        if not self._core.knows(topic, partition):
            await self._core.learn_topic(topic, partition)
        now_ms = await Now()
        wall_ms = await WallClock()
        batch, place = self._core.append(topic, partition, Record(key, value, (), wall_ms), now_ms)
        if self._core.must_wake_sender(batch):
            self._wake()
        return Sent(batch, place)

    async def flush(self) -> None:
        self._core.send_now()
        self._wake()
        await Until(lambda: self._core.is_flushed)
        failure = self._core.failure
        self._core.mark_reported(failure)
        if failure is not None:
            raise failure

    def init(self) -> Flow[None]:
        return self._core.init()

    def begin(self) -> None:
        self._core.begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Flow[None]:
        return self._core.commit_offsets(group, offsets)

    def commit(self) -> Flow[None]:
        """Everything must be flushed."""
        return self._core.commit()

    async def abort(self) -> None:
        self._core.require_transaction()
        self._core.drop()
        self._wake()
        await Until(lambda: self._core.is_dropped)
        await self._core.abort()

    async def close(self) -> None:
        self._core.stop()
        if self._has_pump:
            self._wake()
            await Until(lambda: self._pump_is_over)
        self._node.forget(self.transport)

    def _wake(self) -> None:
        if not self._has_pump:
            self._has_pump = True
            self._node.background(self.transport, self._core.run_sender(), self._pump_ended)
        self.transport.wake()

    def _pump_ended(self) -> None:
        self._pump_is_over = True
        self._node.changed()


class SimulatedConsumer:
    """The consumer; see AsyncConsumer, whose methods these are."""

    def __init__(
        self,
        node: ClientNode,
        isolation_level: IsolationLevel,
        *,
        group: str | None = None,
        group_protocol: str = "classic",
        at_once_bytes: int | None = None,
        min_bytes: int = 1,
    ) -> None:
        """Each answer has about `at_once_bytes` of a partition; drawn where nothing is said."""
        self._node = node
        self._transport = node.transport()
        self._group_transport = node.transport()
        self._group: GroupConsumer | None = None
        self._pump_is_over = True
        at_once_bytes = at_once_bytes or node.random.choice(FETCH_BYTES)
        cluster = Cluster(node.settings)
        fetching = FetchSettings(isolation_level, min_bytes, 500, 10 * at_once_bytes, at_once_bytes)
        reset = parse_reset("earliest")
        if group is None:
            self.core = ConsumerCore(cluster, fetching, reset=reset, include_control=False)
            return
        is_classic = group_protocol == "classic"
        settings = group_settings(
            group,
            group_instance_id=None,
            group_protocol=group_protocol,
            max_poll_interval_ms=60_000,
            metadata_max_age_ms=30_000,
            group_remote_assignor=None,
            session_timeout_ms=SESSION_MS if is_classic else None,
            heartbeat_interval_ms=HEARTBEAT_MS if is_classic else None,
        )
        self.core = self._group = GroupConsumer(
            cluster,
            fetching,
            settings,
            reset=reset,
            include_control=False,
            auto_commit_interval_ms=None,
            wake_poll=self._transport.wake,
            wake_member=self._group_transport.wake,
            new_member_id=f"{node.name}-{node.random.getrandbits(64):016x}",
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        assert self._group is not None
        self._group.subscribe(topics, Callbacks())
        self._pump_is_over = False
        self._node.background(self._group_transport, self._group.member.run(), self._pump_ended)

    def assign(self, partitions: Mapping[TopicPartition, int]) -> Play:
        return self._beside(self.core.assign(partitions))

    def poll(self, timeout_ms: float = 1_000) -> Play:
        """A list of ConsumedRecord."""
        return self._beside(self.core.poll(timeout_ms, 500))

    def commit(self) -> Play:
        """Commit the offsets of the records that were handed out."""
        assert self._group is not None
        return self._beside(self._group.commit(None))

    def positions(self) -> dict[TopicPartition, int]:
        return {one: position.offset for one, position in self.core.positions().items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> Play:
        assert self._group is not None
        return self._beside(self._group.committed(partitions))

    def seek_to_committed(self) -> Play:
        assert self._group is not None
        return self._beside(self._group.seek_to_committed())

    def metadata(self) -> GroupMetadata:
        assert self._group is not None
        return self._group.metadata()

    async def close(self) -> None:
        if self._group is not None:
            await self._beside(self._group.end())
            await Until(lambda: self._pump_is_over)
        self._node.forget(self._transport)
        self._node.forget(self._group_transport)

    async def _beside(self, flow: Flow[Any]) -> Any:
        """Run a flow on the consumer's own transport, which `wake` reaches."""
        outcome: list[tuple[Any, Exception | None]] = []
        node = self._node

        def done(value: Any, error: Exception | None) -> None:
            outcome.append((value, error))
            node.changed()

        self._transport.run(flow, done)
        await Until(lambda: bool(outcome))
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    def _pump_ended(self) -> None:
        self._pump_is_over = True
        self._node.changed()
