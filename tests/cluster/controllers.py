"""Controllers over a model of ZooKeeper, and brokers that are nothing but what they were told."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from harness.zookeeper_worlds import SESSION_TIMEOUT_MS, SimulatedWorld
from oncelog.cluster.channel import ChannelError, Failure
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.requests import leader_and_isr, stop_replica, update_metadata
from oncelog.cluster.controller.term import ControllerParts, ControllerSettings
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment
from oncelog.cluster.controller.znodes import decode_state, encode_topic
from oncelog.cluster.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from oncelog.cluster.zookeeper.session import Create, Data, GetData, Watched, ZooKeeper, ZooKeeperSessionState
from oncelog.cluster.zookeeper.znodes import BrokerZnode, ListenerEndpoint, paths
from oncelog.coordination import Flow, Promise, start
from oncelog.simulation.broker_node import SimulatedRandom
from oncelog.simulation.cluster.zookeeper import SimulatedZooKeeper
from oncelog.simulation.events import Process, ProcessClock
from oncelog.wire import ErrorCode

SETTINGS = ControllerSettings("PLAINTEXT")


class ToldBroker:
    """A registered broker. It answers each request, and keeps what it was told."""

    def __init__(self, cluster: SimulatedCluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.client = cluster.world.connect()
        self.told: list[Any] = []
        self.is_silent = False
        self.controller_epoch = 0
        """Of the newest controller that it has heard of: an older one is refused."""
        endpoint = ListenerEndpoint("PLAINTEXT", f"host-{broker_id}", 9092)
        data = BrokerZnode((endpoint,), 0).encode()
        created = cluster.world.ask(self.client, Create(paths.broker(broker_id), data, is_ephemeral=True))
        self.epoch = created.stat.czxid
        self.failed: set[tuple[str, int]] = set()

    def answer(self, api_key: int, body: Any) -> Any:
        if body.broker_epoch != self.epoch:
            return ChannelError(Failure.UNKNOWN, "that was another broker")
        if body.controller_epoch < self.controller_epoch:
            return ChannelError(Failure.UNKNOWN, "whoever asks is the controller no more, and hears no answer")
        self.controller_epoch = body.controller_epoch
        self.told.append(body)
        match api_key:
            case _ if api_key == UPDATE_METADATA:
                return update_metadata.UpdateMetadataResponse(error_code=ErrorCode.none)
            case _ if api_key == LEADER_AND_ISR:
                topics = tuple(
                    leader_and_isr.LeaderAndIsrTopicError(
                        topic_id=topic.topic_id,
                        partition_errors=tuple(self._led(topic.topic_name, one) for one in topic.partition_states),
                    )
                    for topic in body.topic_states
                )
                return leader_and_isr.LeaderAndIsrResponse(error_code=ErrorCode.none, topics=topics)
            case _:
                assert api_key == STOP_REPLICA
                errors = tuple(
                    stop_replica.StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=one.partition_index, error_code=ErrorCode.none
                    )
                    for topic in body.topic_states
                    for one in topic.partition_states
                )
                return stop_replica.StopReplicaResponse(error_code=ErrorCode.none, partition_errors=errors)

    def _led(self, topic: str, one: Any) -> leader_and_isr.LeaderAndIsrPartitionError:
        is_failed = (topic, one.partition_index) in self.failed
        error = ErrorCode.kafka_storage_error if is_failed else ErrorCode.none
        return leader_and_isr.LeaderAndIsrPartitionError(partition_index=one.partition_index, error_code=error)

    def leader_epoch(self, topic: str, number: int) -> tuple[int, int] | None:
        """Whom it was told to follow last, and in which epoch."""
        found = None
        for body in self.told:
            if isinstance(body, leader_and_isr.LeaderAndIsrRequest):
                for state in body.topic_states:
                    for one in state.partition_states:
                        if (state.topic_name, one.partition_index) == (topic, number):
                            found = (one.leader, one.leader_epoch)
        return found


class Channel:
    """Answers come a little later, in order."""

    def __init__(self, node: ControllerNode, broker_id: int) -> None:
        self._node = node
        self._broker_id = broker_id
        self.is_closed = False

    async def ask(self, api_key: int, version: int, body: Any, timeout_ms: float) -> Any:
        answer: Promise[Any] = Promise()
        self._node.clock.call_later(0.1, lambda: answer.resolve(self._answer(api_key, body)))
        return await answer

    def _answer(self, api_key: int, body: Any) -> Any:
        broker = self._node.cluster.brokers.get(self._broker_id)
        if broker is None or broker.is_silent or self.is_closed:
            return ChannelError(Failure.UNREACHABLE, "nobody is there")
        return broker.answer(api_key, body)

    def close(self) -> None:
        self.is_closed = True


class ControllerNode:
    """A process that may be the controller, with a session of its own."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        node_id: int,
        settings: ControllerSettings,
        seen_through: Callable[[ZooKeeper], ZooKeeper],
    ) -> None:
        """`seen_through` may change what the controller asks of ZooKeeper, and hears of it."""
        self.cluster = cluster
        self.node_id = node_id
        world = cluster.world
        self.process = Process(world.queue, f"controller-{node_id}", cluster.errors.append)
        self.clock = ProcessClock(self.process)
        self.random = SimulatedRandom(Random(node_id))
        session = SimulatedZooKeeper(world.ensemble, self.process, Random(node_id), SESSION_TIMEOUT_MS)
        self.zookeeper: ZooKeeper = seen_through(session)
        self.opened: list[int] = []
        """The brokers to which channels were opened."""
        self.is_broker_registered_again = True
        """Whether the broker of this process does what it has to do with each new session."""
        parts = ControllerParts(
            self.clock,
            self.random,
            self.zookeeper,
            self.node_id,
            self.open_channel,
            is_unclean_election_enabled=lambda: False,
        )
        self.controller = Controller(parts, settings)
        session.on_watched = self._watched
        session.on_session = self._session_changed

    def open_channel(self, broker_id: int, host: str, port: int) -> Channel:
        assert (host, port) == (f"host-{broker_id}", 9092)
        self.opened.append(broker_id)
        return Channel(self, broker_id)

    def _watched(self, watched: Watched) -> None:
        self.controller.watched(watched)

    def _session_changed(self, state: ZooKeeperSessionState) -> None:
        self.controller.session_changed(state)
        if state is ZooKeeperSessionState.CONNECTED and self.is_broker_registered_again:
            self.controller.begin()


class SimulatedCluster:
    def __init__(self) -> None:
        self.world = SimulatedWorld()
        self.errors: list[BaseException] = []
        self.brokers: dict[int, ToldBroker] = {}
        self.client = self.world.connect()
        for path in paths.MADE_AT_START:
            for parent in (*paths.parents(path), path):
                self.world.ask(self.client, Create(parent))

    def start_controller(
        self,
        node_id: int,
        settings: ControllerSettings = SETTINGS,
        seen_through: Callable[[ZooKeeper], ZooKeeper] = lambda session: session,
    ) -> ControllerNode:
        return ControllerNode(self, node_id, settings, seen_through)

    def start_broker(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.brokers[broker_id] = ToldBroker(self, broker_id)

    def kill_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id).client.close()

    def create(self, topic: str, *assignment: tuple[int, ...]) -> UUID:
        topic_id = UUID(int=sum(map(ord, topic)))
        partitions = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(assignment)}
        self.world.ask(self.client, Create(paths.topic(topic), encode_topic(TopicAssignment(topic_id, partitions))))
        return topic_id

    def state(self, topic: str, number: int = 0):
        read = self.world.ask(self.client, GetData(paths.partition_state(topic, number)))
        return decode_state((topic, number), read) if isinstance(read, Data) else None

    def until(self, is_so) -> None:
        def checked() -> bool:
            if self.errors:
                raise self.errors[0]
            return is_so()

        self.world.until(checked)

    def take(self, flow: Flow[Any]) -> Any:
        task = start(flow)
        self.until(lambda: task.is_resolved)
        return task.value

    def settle(self, duration_ms: float = 500) -> None:
        """Let time pass."""
        end_ms = self.world.queue.now_ms + duration_ms
        over: list[None] = []
        self.world.queue.at(end_ms, "settled", lambda: over.append(None))
        self.until(lambda: bool(over))
