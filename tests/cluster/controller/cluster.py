"""A cluster that is nothing but values: what ZooKeeper has, and what each broker was told. It runs the controller's flows.

Whatever is written is checked at once against what must always hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from oncelog.cluster.controller.actions import (
    BrokerRequest,
    ControllerWrite,
    CreatePartitionState,
    DeleteNotification,
    DeletePreferredElection,
    DeleteTopic,
    DeleteTopicDeletion,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Outcome,
    SetPartitionState,
    SetReassignments,
    SetTopicAssignment,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from oncelog.cluster.controller.brokers import answered_leader_and_isr
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.failover import Snapshot, begin
from oncelog.cluster.controller.topics import complete_deletion, fail_deletion
from oncelog.cluster.controller.values import LeaderAndIsr, RegisteredBroker, Replica, TopicAssignment, TopicPartition
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.coordination import Flow, start
from oncelog.wire import ErrorCode

T = TypeVar("T")


class ControllerMovedError(Exception):
    """A write was fenced: the controller is another."""


@dataclass
class ToldBroker:
    """What a broker knows, by the rules of a Kafka broker: older leader epochs are ignored."""

    broker: RegisteredBroker
    hosted: dict[TopicPartition, LeaderAndIsrPartition]
    metadata: dict[TopicPartition, UpdateMetadataPartition]
    known_brokers: set[int]
    controller_epoch: int = 0


class Cluster:
    def __init__(self) -> None:
        self.registered: dict[int, RegisteredBroker] = {}
        self.told: dict[int, ToldBroker] = {}
        self.failed_replicas: set[tuple[int, TopicPartition]] = set()
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.deletions: set[str] = set()
        self.reassignments: dict[TopicPartition, tuple[int, ...]] | None = None
        self.preferred_elections: set[TopicPartition] | None = None
        self.unclean: set[str] = set()
        self.controller_epoch = 0
        self.context = ControllerContext(0, 0, self)
        self.sent: list[BrokerRequest] = []
        self.writes: list[ControllerWrite] = []
        self.unsent: list[BrokerRequest] = []
        self.actions: list[str] = []
        """Writes, requests and waits, in order."""
        self.before_write: Callable[[ControllerWrite], ZooKeeperError | None] = lambda _: None
        self.leaders_by_epoch: dict[tuple[UUID, int, int], int] = {}
        self.is_forced_unclean = False
        self._czxid = 100

    # What happens outside

    def start(self, *broker_ids: int, rack: str | None = None) -> None:
        for broker_id in broker_ids:
            self._czxid += 1
            broker = RegisteredBroker(broker_id, self._czxid, (), rack)
            self.registered[broker_id] = broker
            self.told[broker_id] = ToldBroker(broker, {}, {}, set())
            self.failed_replicas = {one for one in self.failed_replicas if one[0] != broker_id}

    def kill(self, broker_id: int) -> None:
        del self.registered[broker_id]
        del self.told[broker_id]

    def become_controller(self, controller_id: int = 0, *, may_delete_topics: bool = True) -> None:
        self.controller_epoch += 1
        self.context = ControllerContext(controller_id, self.controller_epoch, self)
        snapshot = Snapshot(
            dict(self.registered),
            dict(self.topics),
            dict(self.states),
            set(self.deletions),
            self.reassignments,
            self.preferred_elections,
            {topic: UUID(int=10_000 + index) for index, topic in enumerate(sorted(self.topics))},
        )
        self.run(begin(self.context, snapshot, may_delete_topics=may_delete_topics))

    # Running flows

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end, then let brokers answer, and run the flows that follow from that."""
        result = self.take(flow)
        self.deliver()
        return result

    def take(self, flow: Flow[T]) -> T:
        """Every action is answered at once: the flow does not wait."""
        task = start(flow)
        assert task.is_resolved, "a flow of the controller waits for its actions alone"
        return task.value

    # The actions

    async def write_all(self, writes: Iterable[ControllerWrite]) -> tuple[Outcome, ...]:
        every = tuple(writes)
        if not every:
            return ()
        self.actions.append("write")
        if self.context.controller_epoch != self.controller_epoch:
            raise ControllerMovedError
        return tuple(map(self._write, every))

    async def read_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        return {one: self.states[one] for one in partitions if one in self.states}

    async def read_unclean_election(self, topics: Collection[str]) -> dict[str, bool]:
        return {topic: topic in self.unclean for topic in topics}

    async def read_reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        return self.reassignments

    def send(self, requests: Iterable[BrokerRequest]) -> None:
        every = tuple(requests)
        if every:
            self.actions.append("send")
        self.unsent.extend(every)

    async def await_answers(self) -> None:
        self.actions.append("await answers")

    def _write(self, write: ControllerWrite) -> Outcome:
        problem = self.before_write(write)
        if problem is not None:
            return problem
        outcome = self.carry_out(write)
        if isinstance(outcome, int):
            self.writes.append(write)
        return outcome

    def carry_out(self, write: ControllerWrite) -> Outcome:
        match write:
            case CreatePartitionState(partition, state):
                if partition in self.states:
                    return ZooKeeperError.NODE_EXISTS
                self._check_state(partition, None, state)
                self.states[partition] = state
            case SetPartitionState(partition, state):
                before = self.states.get(partition)
                if before is None:
                    return ZooKeeperError.NO_NODE
                if before.partition_epoch != state.partition_epoch:
                    return ZooKeeperError.BAD_VERSION
                self._check_state(partition, before, state)
                version = before.partition_epoch + 1
                self.states[partition] = state.written(version)
                return version
            case SetTopicAssignment(topic, topic_id, partitions):
                if topic not in self.topics:
                    return ZooKeeperError.NO_NODE
                self.topics[topic] = TopicAssignment(topic_id, dict(partitions))
            case DeleteTopic(topic):
                self.topics.pop(topic, None)
                self.states = {one: state for one, state in self.states.items() if one[0] != topic}
                self.deletions.discard(topic)
            case DeleteTopicDeletion(topic):
                self.deletions.discard(topic)
            case SetReassignments(targets):
                self.reassignments = dict(targets) or None
            case DeletePreferredElection():
                self.preferred_elections = None
            case DeleteNotification():
                pass
        return 0

    def _check_state(self, partition: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        replicas = set(self.topics[partition[0]].partitions[partition[1]].replicas)
        replicas |= set(self.context.replicas(partition))
        assert state.isr, "the in-sync replicas are never empty"
        assert state.controller_epoch == self.controller_epoch, "a controller writes its own epoch"
        assert len(set(state.isr)) == len(state.isr)
        assert state.leader == -1 or state.leader in state.isr, "a leader is in sync"
        if before is None:
            assert set(state.isr) <= replicas
            return
        assert state.leader_epoch >= before.leader_epoch, "leader epochs only grow"
        if state.leader != before.leader:
            assert state.leader_epoch > before.leader_epoch, "another leader has another epoch"
        if not set(state.isr) <= set(before.isr) and state.leader_epoch > before.leader_epoch:
            allowed = partition[0] in self.unclean or self.is_forced_unclean
            assert allowed, "who was not in sync leads only where that is allowed"
        if state.leader != -1:
            topic_id = self.topics[partition[0]].topic_id
            assert topic_id is not None
            key = (topic_id, partition[1], state.leader_epoch)
            assert self.leaders_by_epoch.setdefault(key, state.leader) == state.leader, "one leader in an epoch"

    # What brokers do

    def deliver(self) -> None:
        """Let each broker take what it was sent, in order, and answer."""
        while self.unsent:
            request = self.unsent.pop(0)
            self.sent.append(request)
            told = self.told.get(request.broker_id)
            if told is None or told.broker.epoch != request.broker_epoch:
                continue
            if request.controller_epoch < told.controller_epoch:
                continue
            told.controller_epoch = request.controller_epoch
            match request:
                case LeaderAndIsrRequest():
                    errors = self._host(told, request)
                    self.take(answered_leader_and_isr(self.context, request.broker_id, errors))
                case UpdateMetadataRequest(_, _, _, partitions, _, brokers):
                    told.known_brokers = {broker.broker_id for broker in brokers}
                    told.metadata |= {one.partition: one for one in partitions}
                case StopReplicaRequest():
                    self._stop(told, request)

    def _host(self, told: ToldBroker, request: LeaderAndIsrRequest) -> dict[TopicPartition, ErrorCode]:
        errors = {}
        leaders = {broker.broker_id for broker in request.live_leaders}
        for one in request.partitions:
            held = told.hosted.get(one.partition)
            is_failed = (request.broker_id, one.partition) in self.failed_replicas
            assert one.state.leader == -1 or one.state.leader in leaders or one.state.leader not in self.context.brokers
            if is_failed:
                errors[one.partition] = ErrorCode.kafka_storage_error
            elif held is not None and held.state.leader_epoch > one.state.leader_epoch:
                errors[one.partition] = ErrorCode.stale_controller_epoch
            else:
                errors[one.partition] = ErrorCode.none
                told.hosted[one.partition] = one
        return errors

    def _stop(self, told: ToldBroker, request: StopReplicaRequest) -> None:
        deleted, failed = [], []
        for one in request.partitions:
            held = told.hosted.get(one.partition)
            if held is not None and one.leader_epoch not in (-2, -1) and one.leader_epoch < held.state.leader_epoch:
                continue
            told.hosted.pop(one.partition, None)
            if one.delete and one.partition[0] in self.context.deletion_started:
                is_failed = (request.broker_id, one.partition) in self.failed_replicas
                (failed if is_failed else deleted).append(Replica(one.partition, request.broker_id))
        if failed:
            self.take(fail_deletion(self.context, failed))
        if deleted:
            self.take(complete_deletion(self.context, deleted))

    # What must hold whenever nothing is under way

    def check(self) -> None:
        context = self.context
        for partition, led in context.leaders.items():
            assert led.same_state(self.states[partition]), f"{partition} is known as it is written"
            assert led.partition_epoch == self.states[partition].partition_epoch
        for topic, assignment in self.topics.items():
            if topic in context.topics and topic not in context.to_be_deleted:
                assert context.assignments[topic] == assignment.partitions
        for partition, state in self.states.items():
            if partition[0] in context.to_be_deleted or partition[0] not in context.topics:
                continue
            self._check_told(partition, state)
            self._check_alive(partition, state)

    def _check_told(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        for broker_id, told in self.told.items():
            known = told.metadata.get(partition)
            assert known is not None, f"broker {broker_id} has not heard of {partition}"
            assert known.state.same_state(state), f"broker {broker_id} has heard the newest of {partition}"
            assert known.state.partition_epoch == state.partition_epoch
            assert told.known_brokers == self.registered.keys()
        if state.leader == -1:
            return
        for broker_id in self.context.replicas(partition):
            if self.context.is_replica_online(broker_id, partition):
                hosted = self.told[broker_id].hosted.get(partition)
                assert hosted is not None, f"broker {broker_id} was not told of its replica of {partition}"
                assert hosted.state.leader_epoch == state.leader_epoch, f"{broker_id} knows the epoch of {partition}"
                assert hosted.state.leader == state.leader

    def _check_alive(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        in_sync = [one for one in state.isr if self.context.is_replica_online(one, partition)]
        in_sync = [one for one in in_sync if one in self.context.replicas(partition)]
        is_led = self.context.is_replica_online(state.leader, partition)
        if in_sync and state.leader not in self.context.shutting_down:
            assert is_led, f"{partition} is led while {in_sync} are in sync and live"

    # Short cuts

    def state(self, topic: str, number: int = 0) -> LeaderAndIsr:
        return self.states[topic, number]

    def requests(self, kind: type[T], broker_id: int | None = None) -> list[T]:
        return [one for one in self.sent if isinstance(one, kind) and broker_id in (None, one.broker_id)]

    def alter_outside(self, partition: TopicPartition, isr: Iterable[int]) -> None:
        """A leader before Kafka 2.7 writes its in-sync replicas itself."""
        state = self.states[partition]
        self.states[partition] = replace(state, isr=tuple(isr), partition_epoch=state.partition_epoch + 1)
