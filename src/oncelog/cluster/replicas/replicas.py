"""What the controller wants of this broker's replicas, carried out one order after the other."""

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
class Told:
    """What LeaderAndIsr says of one partition."""

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
class ToStop:
    """What StopReplica says of one partition."""

    topic: str
    index: int
    leader_epoch: int
    delete: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


class Leads(Protocol):
    """Who has to know which partitions this broker leads, and when others are led by somebody else."""

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
        """This broker is about to stop: it joins no in-sync set any more.

        Once it had caught up with who leads next, nothing would be committed there from its stop until all know that it is gone.
        """
        self._is_handing_over = True

    def led(self) -> Iterator[HostedReplica]:
        """Those that this broker leads."""
        return (replica for replica in tuple(self._replicas.values()) if replica.partition.role is ReplicaRole.LEADER)

    async def become(self, told: Sequence[Told], partition_counts: Mapping[UUID, int]) -> list[ErrorCode]:
        """Lead or follow; what became of each, in the same order.

        `partition_counts` has the coordinators' topics: where a group or a transactional id belongs depends on all partitions,
        also on those of which nobody has told yet.

        Of a partition that is named twice the last counts, as in Kafka.

        Errors: stale_controller_epoch for a leader epoch that is not new, inconsistent_topic_id, kafka_storage_error,
        unknown_topic_or_partition for a partition that has no replica here, or that there cannot be; invalid_topic_exception
        and unknown_topic_id for such topics.

        What was begun is carried out, also where whoever asked is gone.
        """
        last = {one.key: one for one in told}
        errors = await start(self._become_all(list(last.values()), partition_counts))
        by_key = dict(zip(last, errors, strict=True))
        return [by_key[one.key] for one in told]

    async def _become_all(self, told: Sequence[Told], partition_counts: Mapping[UUID, int]) -> list[ErrorCode]:
        await self._orders.enter()
        try:
            impossible = self._impossible(told)
            await self._make_way([one for one in told if one.key not in impossible])
            decided = [self._decide(one, impossible.get(one.key)) for one in told]
            changing = [
                one for one, (becomes, _) in zip(told, decided, strict=True) if becomes is not Becomes.UNCHANGED
            ]
            await self._topics.host([one.replica for one in changing if not self._is_here(one)])
            for topic_id in {one.topic_id for one in changing}:
                self._topics.claim(topic_id)
            await self._fetchers.stop_following([one for one in map(self._partition, changing) if one is not None])
            self._topics.reach(partition_counts)
            turn = Turn(self._clock)
            errors = []
            for one, (becomes, error) in zip(told, decided, strict=True):
                errors.append(error if becomes is Becomes.UNCHANGED else self._become(one, becomes))
                if turn.is_over:
                    await turn.rest()
            return errors
        finally:
            self._orders.leave()

    def _impossible(self, told: Sequence[Told]) -> dict[tuple[str, int], ErrorCode]:
        """What there cannot be of it."""
        check = OrderCheck(self._topics, len(told))
        by_topic: defaultdict[tuple[str, UUID], list[int]] = defaultdict(list)
        for one in told:
            by_topic[one.topic, one.topic_id].append(one.index)
        found: dict[tuple[str, int], ErrorCode] = {}
        for (name, topic_id), indexes in by_topic.items():
            problem = check.topic_problem(name, topic_id)
            possible = () if problem is not None else check.possible(topic_id, indexes)
            error = problem or ErrorCode.unknown_topic_or_partition
            found |= {(name, index): error for index in indexes if index not in possible}
        return found

    async def _make_way(self, told: Sequence[Told]) -> None:
        """Delete what is here of topics whose names have become those of others.

        A topic may be deleted while this broker is away and its replica has been given to another one: then nobody tells it
        to delete that. A replica that a controller has claimed since this broker was registered stays, whatever a late order
        says; ZooKeeper has not been older since.
        """
        left_over = [one for one in told if self._is_left_over(one)]
        if not left_over:
            return
        try:
            ids = {name: await self._topic_id(name) for name in {one.topic for one in left_over}}
        except SessionEndedError:
            return
        await self._topics.take_names([one.replica for one in left_over if ids[one.topic] == one.topic_id])

    def _is_left_over(self, told: Told) -> bool:
        partition = self._partition(told)
        if partition is None or partition.role is ReplicaRole.LEAVING:
            return False
        return partition.topic_id != told.topic_id and partition not in self._replicas

    def _decide(self, told: Told, problem: ErrorCode | None) -> tuple[Becomes, ErrorCode]:
        if problem is not None:
            return Becomes.UNCHANGED, problem
        partition = self._partition(told)
        if partition is None or partition.role is ReplicaRole.LEAVING:
            return decide(told.state, self._node_id, NO_EPOCH, NO_EPOCH)
        if partition.topic_id != told.topic_id:
            return Becomes.UNCHANGED, ErrorCode.inconsistent_topic_id
        if partition.is_offline:
            return Becomes.UNCHANGED, ErrorCode.kafka_storage_error
        replica = self._replicas.get(partition)
        if replica is None:
            return decide(told.state, self._node_id, NO_EPOCH, NO_EPOCH)
        return decide(told.state, self._node_id, replica.state.leader_epoch, replica.state.partition_epoch)

    def _partition(self, told: Told | ToStop) -> Partition | None:
        """What is here of a partition, of whichever topic of that name."""
        return self._topics.replica(told.topic, told.index)

    def _is_here(self, told: Told) -> bool:
        partition = self._partition(told)
        return partition is not None and partition.role is not ReplicaRole.LEAVING

    def _become(self, told: Told, becomes: Becomes) -> ErrorCode:
        partition = self._partition(told)
        if partition is None or partition.is_offline:
            return ErrorCode.kafka_storage_error
        replica = self._replicas.setdefault(partition, HostedReplica(partition, self._surroundings))
        state = told.state
        # First: whoever waits for what this broker leads no more is answered at once, and told who does.
        partition.leadership = _newer(partition.leadership, state)
        try:
            if becomes is Becomes.LEADER:
                has_led_all_along = (
                    partition.role is ReplicaRole.LEADER and state.leader_epoch <= replica.state.leader_epoch + 1
                )
                replica.lead(state)
                if not has_led_all_along:
                    # Who goes on leading has nothing to load. Where an epoch is missing, another one may have led, and gone on
                    # with what is coordinated here under an epoch above the one that this coordinator knows.
                    self._leads.elected(partition, state.leader_epoch)
            else:
                # Its leader would tell it for ever that the epoch is out of range.
                partition.log.check_epochs(state.leader_epoch)
                replica.follow(state)
                self._leads.resigned(partition, state.leader_epoch)
                if state.leader >= 0 and (self._node_id in state.isr or not self._is_handing_over):
                    self._fetchers.follow(partition, state.leader, state.leader_epoch)
        except DiskError as error:
            self._topics.failed(partition, error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    async def stop(self, orders: Sequence[ToStop]) -> list[ErrorCode]:
        """Lead and follow no more, and delete what is to be deleted; what became of each, in the same order.

        Of a partition that is named twice the last counts, as in Kafka.

        Errors: fenced_leader_epoch for one that is older than what is known, kafka_storage_error. What was begun is carried
        out, also where whoever asked is gone.
        """
        last = {one.key: one for one in orders}
        errors = await start(self._stop_all(list(last.values())))
        by_key = dict(zip(last, errors, strict=True))
        return [by_key[one.key] for one in orders]

    async def _stop_all(self, orders: Sequence[ToStop]) -> list[ErrorCode]:
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
        """Its log directory has failed, or its log is damaged: this broker leads it no more, and follows nobody."""
        replica = self._replicas.pop(partition, None)
        if replica is not None:
            replica.go_offline()
        start(self._fetchers.stop_following([partition]))

    async def step_down(self) -> None:
        """Lead and follow nothing, and forget what was told: whatever the controller says next is news."""
        # At once: an order that is under way may wait for ZooKeeper, and this broker has lost it.
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

    def _stop_problem(self, order: ToStop) -> ErrorCode:
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
        """Of who is not alive nobody waits for the log start offset."""
        alive = {node.node_id for node in self._surroundings.members.brokers()}
        if alive != self._alive:
            self._alive = alive
            for replica in self.led():
                replica.partition.wake()

    def shrink(self) -> None:
        """Look for replicas that have not caught up for too long."""
        for replica in self.led():
            replica.shrink()

    def close(self) -> None:
        self._fetchers.stop()


def _newer(known: Leadership, told: LeaderAndIsrState) -> Leadership:
    """What clients are told of a partition that they know.

    UpdateMetadata says the same, but comes later: meanwhile a broker that leads no more would send them to itself.
    """
    if known is UNKNOWN or told.leader_epoch <= known.leader_epoch:
        return known
    return known._replace(leader=told.leader, leader_epoch=told.leader_epoch, isr=told.isr)
