"""The controller's orders to this broker's replicas, LeaderAndIsr and StopReplica, carried out one after the other."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from oncelog.broker.slices import Turn
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.view import UNKNOWN, Leadership
from oncelog.cluster.order_checks import OrderCheck
from oncelog.cluster.replicas.fetchers import Fetchers
from oncelog.cluster.replicas.replica import HostedReplica, Surroundings
from oncelog.cluster.shared_topics import ReplicaId, SharedTopics
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.coordination import start
from oncelog.coordination.flows import OneAtATime
from oncelog.environment import DiskError
from oncelog.replication import Becomes, LeaderAndIsrState, decide
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
"""Stands for the leader epoch of a partition whose topic is deleted: it is newer than every other."""


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """One partition of a LeaderAndIsr request."""

    topic: str
    topic_id: UUID
    index: int
    state: LeaderAndIsrState

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index

    @property
    def replica(self) -> ReplicaId:
        return ReplicaId(self.topic, self.topic_id, self.index)


@dataclass(frozen=True, slots=True)
class StopReplicaState:
    """One partition of a StopReplica request."""

    topic: str
    index: int
    leader_epoch: int
    delete: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


class Leads(Protocol):
    """Listener for changes of leadership."""

    def elected(self, partition: Partition, leader_epoch: int) -> None: ...

    def resigned(self, partition: Partition, leader_epoch: int | None) -> None: ...

    def leaders_changed(self) -> None: ...


class Replicas:
    def __init__(
        self,
        clock: Clock,
        node_id: int,
        topics: SharedTopics,
        fetchers: Fetchers,
        surroundings: Surroundings,
        leads: Leads,
        topic_id: Callable[[str], Awaitable[UUID | None]],
    ) -> None:
        """`topic_id` asks ZooKeeper whose a name is; it may raise SessionEndedError."""
        self._clock = clock
        self._node_id = node_id
        self._topics = topics
        self._fetchers = fetchers
        self._surroundings = surroundings
        self._leads = leads
        self._topic_id = topic_id
        self._orders = OneAtATime()
        self._replicas: dict[Partition, HostedReplica] = {}
        self._alive: set[int] = set()
        self._is_handing_over = False

    def hand_over(self) -> None:
        """Keeps this broker out of in-sync sets before it stops.

        If it were in sync with the next leader, that leader could commit nothing between its stop and its removal.
        """
        self._is_handing_over = True

    def led(self) -> Iterator[HostedReplica]:
        """Replicas that lead their partitions."""
        return (replica for replica in tuple(self._replicas.values()) if replica.partition.role is ReplicaRole.LEADER)

    async def become(self, orders: Sequence[ReplicaOrder], partition_counts: Mapping[UUID, int]) -> list[ErrorCode]:
        """Carries out LeaderAndIsr. Returns an error for each partition, in the same order.

        `partition_counts` has the coordinators' topics: a group or transactional id maps to one of all partitions of its topic,
        also of those without an order yet.

        If a partition is named twice, the last counts, as in Kafka.

        Errors: stale_controller_epoch for a leader epoch that is not new, inconsistent_topic_id, kafka_storage_error,
        unknown_topic_or_partition for a partition without a replica here, or an impossible one; invalid_topic_exception
        and unknown_topic_id for such topics.

        An order that has begun is carried out, even if its connection is gone.
        """
        last = {one.key: one for one in orders}
        errors = await start(self._become_all(list(last.values()), partition_counts))
        by_key = dict(zip(last, errors, strict=True))
        return [by_key[one.key] for one in orders]

    async def _become_all(
        self, orders: Sequence[ReplicaOrder], partition_counts: Mapping[UUID, int]
    ) -> list[ErrorCode]:
        await self._orders.enter()
        try:
            impossible = self._impossible(orders)
            await self._make_way([one for one in orders if one.key not in impossible])
            decided = [self._decide(one, impossible.get(one.key)) for one in orders]
            changing = [
                one for one, (becomes, _) in zip(orders, decided, strict=True) if becomes is not Becomes.UNCHANGED
            ]
            await self._topics.host([one.replica for one in changing if not self._is_here(one)])
            for topic_id in {one.topic_id for one in changing}:
                self._topics.claim(topic_id)
            await self._fetchers.stop_following([one for one in map(self._partition, changing) if one is not None])
            self._topics.reach(partition_counts)
            turn = Turn(self._clock)
            errors = []
            for one, (becomes, error) in zip(orders, decided, strict=True):
                errors.append(error if becomes is Becomes.UNCHANGED else self._become(one, becomes))
                if turn.is_over:
                    await turn.rest()
            return errors
        finally:
            self._orders.leave()

    def _impossible(self, orders: Sequence[ReplicaOrder]) -> dict[tuple[str, int], ErrorCode]:
        """Errors for impossible topics and partitions."""
        check = OrderCheck(self._topics, len(orders))
        by_topic: defaultdict[tuple[str, UUID], list[int]] = defaultdict(list)
        for one in orders:
            by_topic[one.topic, one.topic_id].append(one.index)
        found: dict[tuple[str, int], ErrorCode] = {}
        for (name, topic_id), indexes in by_topic.items():
            problem = check.topic_problem(name, topic_id)
            possible = () if problem is not None else check.possible(topic_id, indexes)
            error = problem or ErrorCode.unknown_topic_or_partition
            found |= {(name, index): error for index in indexes if index not in possible}
        return found

    async def _make_way(self, orders: Sequence[ReplicaOrder]) -> None:
        """Deletes replicas of topics whose names belong to newer topics.

        While this broker is away, its replica may move to another broker, and the topic be deleted: then no StopReplica comes.
        A replica that a controller has claimed since this broker was registered stays, whatever a late order says.
        """
        left_over = [one for one in orders if self._is_left_over(one)]
        if not left_over:
            return
        try:
            ids = {name: await self._topic_id(name) for name in {one.topic for one in left_over}}
        except SessionEndedError:
            return
        await self._topics.take_names([one.replica for one in left_over if ids[one.topic] == one.topic_id])

    def _is_left_over(self, order: ReplicaOrder) -> bool:
        partition = self._partition(order)
        if partition is None or partition.role is ReplicaRole.LEAVING:
            return False
        return partition.topic_id != order.topic_id and partition not in self._replicas

    def _decide(self, order: ReplicaOrder, problem: ErrorCode | None) -> tuple[Becomes, ErrorCode]:
        if problem is not None:
            return Becomes.UNCHANGED, problem
        partition = self._partition(order)
        if partition is None or partition.role is ReplicaRole.LEAVING:
            return decide(order.state, self._node_id, NO_EPOCH, NO_EPOCH)
        if partition.topic_id != order.topic_id:
            return Becomes.UNCHANGED, ErrorCode.inconsistent_topic_id
        if partition.is_offline:
            return Becomes.UNCHANGED, ErrorCode.kafka_storage_error
        replica = self._replicas.get(partition)
        if replica is None:
            return decide(order.state, self._node_id, NO_EPOCH, NO_EPOCH)
        return decide(order.state, self._node_id, replica.state.leader_epoch, replica.state.partition_epoch)

    def _partition(self, order: ReplicaOrder | StopReplicaState) -> Partition | None:
        """This broker's replica under that name, whatever its topic id."""
        return self._topics.replica(order.topic, order.index)

    def _is_here(self, order: ReplicaOrder) -> bool:
        partition = self._partition(order)
        return partition is not None and partition.role is not ReplicaRole.LEAVING

    def _become(self, order: ReplicaOrder, becomes: Becomes) -> ErrorCode:
        partition = self._partition(order)
        if partition is None or partition.is_offline:
            return ErrorCode.kafka_storage_error
        replica = self._replicas.setdefault(partition, HostedReplica(partition, self._surroundings))
        state = order.state
        # First: waiting requests are answered at once with the new leader.
        partition.leadership = _newer(partition.leadership, state)
        try:
            if becomes is Becomes.LEADER:
                has_led_all_along = (
                    partition.role is ReplicaRole.LEADER and state.leader_epoch <= replica.state.leader_epoch + 1
                )
                replica.lead(state)
                if not has_led_all_along:
                    # A leader that stays has nothing to load. In a skipped epoch another broker may have led, and its
                    # coordinator may have written records that this one has not loaded.
                    self._leads.elected(partition, state.leader_epoch)
            else:
                # With an impossible epoch its fetches would fail for ever.
                partition.log.check_epochs(state.leader_epoch)
                replica.follow(state)
                self._leads.resigned(partition, state.leader_epoch)
                if state.leader >= 0 and (self._node_id in state.isr or not self._is_handing_over):
                    self._fetchers.follow(partition, state.leader, state.leader_epoch)
        except DiskError as error:
            self._topics.failed(partition, error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    async def stop(self, orders: Sequence[StopReplicaState]) -> list[ErrorCode]:
        """Carries out StopReplica. Returns an error for each partition, in the same order.

        If a partition is named twice, the last counts, as in Kafka.

        Errors: fenced_leader_epoch for one that is older than what is known, kafka_storage_error. An order that has
        begun is carried out, even if its connection is gone.
        """
        last = {one.key: one for one in orders}
        errors = await start(self._stop_all(list(last.values())))
        by_key = dict(zip(last, errors, strict=True))
        return [by_key[one.key] for one in orders]

    async def _stop_all(self, orders: Sequence[StopReplicaState]) -> list[ErrorCode]:
        await self._orders.enter()
        try:
            errors = [self._stop_problem(one) for one in orders]
            stopping = [one for one, error in zip(orders, errors, strict=True) if error is ErrorCode.none]
            await self._fetchers.stop_following([one for one in map(self._partition, stopping) if one is not None])
            to_delete: list[Partition] = []
            for one in stopping:
                partition = self._partition(one)
                if partition is None or partition.role is ReplicaRole.LEAVING:
                    continue
                replica = self._replicas.pop(partition, None)
                if replica is not None:
                    replica.stop()
                self._leads.resigned(partition, None)
                logger.info("%s: stopped%s", partition, ", and to be deleted" if one.delete else "")
                if one.delete:
                    to_delete.append(partition)
            if to_delete:
                await self._topics.leave(to_delete)
            return errors
        finally:
            self._orders.leave()

    def went_offline(self, partition: Partition) -> None:
        """Stops the replica: its log directory has failed, or its log is damaged."""
        replica = self._replicas.pop(partition, None)
        if replica is not None:
            replica.go_offline()
        start(self._fetchers.stop_following([partition]))

    async def step_down(self) -> None:
        """Neither leads nor follows anything, and forgets all leader epochs: the next order is always new."""
        # At once: an order under way may wait for ZooKeeper, and the session is lost.
        self._stop_each()
        await self._orders.enter()
        try:
            self._stop_each()
            replicas = tuple(self._replicas.values())
            self._replicas.clear()
            await self._fetchers.stop_following([replica.partition for replica in replicas])
        finally:
            self._orders.leave()

    def _stop_each(self) -> None:
        for replica in tuple(self._replicas.values()):
            replica.stop()
            self._leads.resigned(replica.partition, None)

    def _stop_problem(self, order: StopReplicaState) -> ErrorCode:
        partition = self._partition(order)
        if partition is None:
            return ErrorCode.none
        if partition.is_offline and not order.delete:
            return ErrorCode.kafka_storage_error
        replica = self._replicas.get(partition)
        known = NO_EPOCH if replica is None else replica.state.leader_epoch
        if order.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE) or order.leader_epoch >= known:
            return ErrorCode.none
        return ErrorCode.fenced_leader_epoch

    def members_changed(self) -> None:
        """Wakes led partitions: a broker that is gone no longer holds the low watermark back."""
        alive = {node.node_id for node in self._surroundings.members.brokers()}
        if alive != self._alive:
            self._alive = alive
            for replica in self.led():
                replica.partition.wake()

    def shrink(self) -> None:
        """Checks every led partition for late replicas."""
        for replica in self.led():
            replica.shrink()

    def close(self) -> None:
        self._fetchers.stop()


def _newer(known: Leadership, told: LeaderAndIsrState) -> Leadership:
    """The newer of two leaderships for metadata.

    UpdateMetadata comes later than LeaderAndIsr: until then a former leader would name itself.
    """
    if known is UNKNOWN or told.leader_epoch <= known.leader_epoch:
        return known
    return known._replace(leader=told.leader, leader_epoch=told.leader_epoch, isr=told.isr)
