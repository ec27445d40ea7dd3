"""One term of the controller, from its election until its session ends or another controller is elected.

Events are served one at a time, in order: an event ends before the next one begins.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from oncelog.cluster.controller import loading
from oncelog.cluster.controller.actions import (
    BrokerRequest,
    ControllerWrite,
    LeaderAndIsrRequest,
    Outcome,
    StopReplicaRequest,
)
from oncelog.cluster.controller.brokers import answered_leader_and_isr
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.failover import begin
from oncelog.cluster.controller.leader_elections import rebalance
from oncelog.cluster.controller.queues import BrokerQueues, OpenChannel
from oncelog.cluster.controller.requests import leader_and_isr_errors, stop_replica_errors
from oncelog.cluster.controller.topics import complete_deletion, fail_deletion
from oncelog.cluster.controller.values import LeaderAndIsr, Replica, TopicPartition
from oncelog.cluster.controller.zookeeper import ControllerZooKeeper, ResignedError
from oncelog.cluster.counts import ControllerCounts
from oncelog.cluster.zookeeper.session import ZooKeeper
from oncelog.cluster.zookeeper.znodes import ZnodeError, decode_config, paths
from oncelog.coordination import Flow, Promise, start
from oncelog.environment import Clock, Random, Timer
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.cluster.controller")

UNCLEAN_ELECTION = "unclean.leader.election.enable"
FIRST_REBALANCE_MS = 5_000


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Kafka's settings of a controller, with their names and defaults."""

    inter_broker_listener: str
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controller_socket_timeout_ms: int = 30_000


class ControllerParts(NamedTuple):
    """The parts of a broker that its controller works with."""

    clock: Clock
    random: Random
    zookeeper: ZooKeeper
    node_id: int
    open_channel: OpenChannel
    is_unclean_election_enabled: Callable[[], bool]
    """The default for topics without a setting of their own."""


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """`refuse` answers the waiting request if the event is not served. A flow that is cut off raises ResignedError by itself."""

    name: str
    serve: Callable[[], Flow[object]]
    refuse: Callable[[], None] = lambda: None


class ControllerTerm:
    def __init__(
        self,
        broker: ControllerParts,
        settings: ControllerSettings,
        controller_epoch: int,
        epoch_version: int,
        counts: ControllerCounts,
        on_resigned: Callable[[], None],
    ) -> None:
        self.context = ControllerContext(broker.node_id, controller_epoch, self)
        self.zookeeper = ControllerZooKeeper(broker.zookeeper, epoch_version, on_resigned)
        self.settings = settings
        self.random = broker.random
        self._broker = broker
        self._queues = BrokerQueues(
            broker.clock,
            broker.open_channel,
            broker.node_id,
            settings.inter_broker_listener,
            settings.controller_socket_timeout_ms,
            self._answered,
        )
        self._counts = counts
        self._events: deque[tuple[ControllerEvent, float]] = deque()
        """Waiting events, each with its time of arrival."""
        self._is_busy = False
        self._is_over = False
        self._timer: Timer | None = None

    def begin(self) -> None:
        self.put(ControllerEvent("controller failover", self._fail_over))

    def end(self) -> None:
        """Ends the term: refuses the waiting events, and stops the current one at its next action."""
        self._is_over = True
        self.zookeeper.end()
        self._queues.close()
        if self._timer is not None:
            self._timer.cancel()
        events, self._events = self._events, deque()
        for event, _ in events:
            event.refuse()

    def all_told(self) -> Promise[None]:
        """Resolved when every broker has answered what it was sent, or is gone."""
        return self._queues.all_told()

    @property
    def waiting_count(self) -> int:
        """The number of events in the queue."""
        return len(self._events)

    def put(self, event: ControllerEvent) -> None:
        if self._is_over:
            event.refuse()
            return
        self._events.append((event, self._broker.clock.monotonic_ms()))
        if not self._is_busy:
            start(self._serve())

    async def _serve(self) -> None:
        self._is_busy = True
        while self._events:
            event, came_ms = self._events.popleft()
            began_ms = self._broker.clock.monotonic_ms()
            self._counts.queued.add(began_ms - came_ms)
            try:
                await event.serve()
            except ResignedError:
                event.refuse()
            except ZnodeError as error:
                logger.error("%s was not served: %s", event.name, error)
                event.refuse()
            self._counts.served[event.name].add(self._broker.clock.monotonic_ms() - began_ms)
            self._queues.keep(self.context.brokers)
        self._is_busy = False

    # Actions of the controller's flows. Once the term is over, they raise ResignedError

    async def write_all(self, writes: Iterable[ControllerWrite]) -> tuple[Outcome, ...]:
        return await self.zookeeper.write_all(writes)

    async def read_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        return await loading.read_states(self.zookeeper, tuple(partitions))

    async def read_reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        return await loading.read_reassignments(self.zookeeper)

    async def read_unclean_election(self, topics: Collection[str]) -> dict[str, bool]:
        allowed = {}
        ordered = sorted(topics)
        reads = await self.zookeeper.read_all([paths.config("topics", topic) for topic in ordered])
        for topic, read in zip(ordered, reads, strict=True):
            try:
                own = {} if read is None else decode_config("topics", topic, read.data)
            except ZnodeError as error:
                logger.error("unclean.leader.election.enable of topic %s cannot be read: %s", topic, error)
                continue
            setting = own.get(UNCLEAN_ELECTION)
            is_enabled = self._broker.is_unclean_election_enabled() if setting is None else setting.lower() == "true"
            allowed[topic] = is_enabled
        return allowed

    def send(self, requests: Iterable[BrokerRequest]) -> None:
        for request in requests:
            broker = self.context.brokers.get(request.broker_id)
            if broker is not None:
                self._queues.send(request, broker)

    async def await_answers(self) -> None:
        await self._queues.keep_pace()
        if self._is_over:
            raise ResignedError

    # Its own events

    async def _fail_over(self) -> None:
        snapshot = await loading.load(self.zookeeper, self.random, self.settings.inter_broker_listener)
        await begin(self.context, snapshot, may_delete_topics=self.settings.delete_topic_enable)
        if self.settings.auto_leader_rebalance_enable:
            self._rebalance_in(FIRST_REBALANCE_MS)

    def _rebalance_in(self, delay_ms: int) -> None:
        event = ControllerEvent("automatic rebalance of leaders", self._rebalance)
        self._timer = self._broker.clock.call_later(delay_ms, lambda: self.put(event))

    async def _rebalance(self) -> None:
        await rebalance(self.context, self.settings.leader_imbalance_per_broker_percentage)
        self._rebalance_in(self.settings.leader_imbalance_check_interval_seconds * 1000)

    def _answered(self, request: BrokerRequest, answer: Any) -> None:
        """Queues an event for the states of replicas in a broker's answer."""
        if answer.error_code is not ErrorCode.none:
            kind = type(request).__name__.removesuffix("Request")
            logger.error("broker %d refused %s: %s", request.broker_id, kind, answer.error_code.name)
        match request:
            case LeaderAndIsrRequest() if answer.error_code is ErrorCode.none:
                self.put(
                    ControllerEvent("answer to LeaderAndIsr", lambda: self._leader_and_isr_answered(request, answer))
                )
            case StopReplicaRequest():
                self.put(ControllerEvent("answer to StopReplica", lambda: self._stop_replica_answered(request, answer)))
            case _:
                pass

    async def _leader_and_isr_answered(self, request: LeaderAndIsrRequest, answer: Any) -> None:
        errors = leader_and_isr_errors(answer, self.context.topic_names)
        await answered_leader_and_isr(self.context, request.broker_id, errors)

    async def _stop_replica_answered(self, request: StopReplicaRequest, answer: Any) -> None:
        """Looks only at deleted replicas of topics whose deletion has begun."""
        deleted = {one.partition for one in request.partitions if one.delete}
        errors = {
            Replica(partition, request.broker_id): error
            for partition, error in stop_replica_errors(answer).items()
            if partition in deleted and partition[0] in self.context.deletion_started
        }
        failed = [replica for replica, error in errors.items() if error is not ErrorCode.none]
        await fail_deletion(self.context, failed)
        done = errors.keys() - set(failed)
        if done:
            await complete_deletion(self.context, sorted(done))
