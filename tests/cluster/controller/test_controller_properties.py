"""Whatever happens to a cluster, in whatever order: what must hold holds after each event (see cluster.py)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncelog.cluster.controller.actions import ControllerWrite, SetPartitionState
from oncelog.cluster.controller.alter_partition import WantedIsr, alter_partitions, change_isrs, complete_reassignments
from oncelog.cluster.controller.brokers import ask_for_failed_directories, change_brokers, shut_down
from oncelog.cluster.controller.leader_elections import ElectionType, elect_from_znode, elect_leaders, rebalance
from oncelog.cluster.controller.partitions import bring_online
from oncelog.cluster.controller.reassignment import reassign, reassign_from_znode
from oncelog.cluster.controller.topics import change_partitions_of, change_topics, queue_deletions
from oncelog.cluster.controller.values import LeaderRecoveryState, ReplicaAssignment, TopicAssignment, TopicPartition
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode
from tests.cluster.controller.cluster import Cluster, ControllerMovedError

BROKERS = range(5)
TOPICS = ("a", "b", "c")
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.next_id = 1
        self.chooser: st.DataObject | None = None

    @initialize()
    def begin(self) -> None:
        self.cluster.start(0, 1, 2)
        self.cluster.become_controller()
        self.create("a", [(0, 1, 2), (1, 2, 0)], is_unclean=False)

    @property
    def context(self):
        return self.cluster.context

    def pick(self, data: st.DataObject) -> TopicPartition:
        return data.draw(st.sampled_from(sorted(self.cluster.states)))

    @rule(broker_id=brokers)
    def start_or_bounce(self, broker_id: int) -> None:
        self.cluster.start(broker_id)
        self.cluster.run(change_brokers(self.context, dict(self.cluster.registered)))

    @rule(broker_id=brokers)
    def kill(self, broker_id: int) -> None:
        if broker_id in self.cluster.registered:
            self.cluster.kill(broker_id)
            self.cluster.run(change_brokers(self.context, dict(self.cluster.registered)))

    @rule(killed=st.sets(brokers, max_size=3), started=st.sets(brokers, max_size=3))
    def change_several(self, killed: set[int], started: set[int]) -> None:
        for broker_id in killed & self.cluster.registered.keys():
            self.cluster.kill(broker_id)
        self.cluster.start(*sorted(started))
        self.cluster.run(change_brokers(self.context, dict(self.cluster.registered)))

    @rule(topic=topics, assignment=st.lists(replica_lists, min_size=1, max_size=3), is_unclean=st.booleans())
    def create(self, topic: str, assignment: list[tuple[int, ...]], is_unclean: bool) -> None:
        if topic in self.cluster.topics or topic in self.cluster.deletions:
            return
        partitions = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(assignment)}
        self.cluster.topics[topic] = TopicAssignment(UUID(int=self.next_id), partitions)
        self.next_id += 1
        self.cluster.unclean -= {topic}
        if is_unclean:
            self.cluster.unclean |= {topic}
        self.notice_topics()

    def notice_topics(self) -> None:
        new = {topic: one for topic, one in self.cluster.topics.items() if topic not in self.context.topics}
        self.cluster.run(change_topics(self.context, self.cluster.topics.keys(), new, {}))

    @rule(topic=topics, replicas=replica_lists)
    def grow(self, topic: str, replicas: tuple[int, ...]) -> None:
        one = self.cluster.topics.get(topic)
        if one is None or any(part.is_being_reassigned for part in one.partitions.values()):
            return
        partitions = one.partitions | {len(one.partitions): ReplicaAssignment(replicas)}
        self.cluster.topics[topic] = TopicAssignment(one.topic_id, partitions)
        existing = [number for name, number in self.cluster.states if name == topic]
        self.cluster.run(change_partitions_of(self.context, topic, partitions, existing))

    @rule(topic=topics)
    def delete(self, topic: str) -> None:
        self.cluster.deletions.add(topic)
        self.cluster.run(queue_deletions(self.context, self.cluster.deletions))

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data(), isr=st.sets(brokers, min_size=1), version=st.integers(0, 3), lag=st.integers(-1, 1))
    def alter(self, data: st.DataObject, isr: set[int], version: int, lag: int) -> None:
        """A leader asks; its followers catch up, or fall behind."""
        partition = self.pick(data)
        state = self.cluster.states[partition]
        leader = self.cluster.told.get(state.leader)
        if leader is None or partition not in leader.hosted:
            return
        wanted_isr = tuple(sorted((isr & set(self.context.replicas(partition))) | {state.leader}))
        recovery = state.recovery_state if len(wanted_isr) == 1 else LeaderRecoveryState.RECOVERED
        wanted = WantedIsr(state.leader_epoch, wanted_isr, recovery, state.partition_epoch + lag)
        results = self.cluster.run(alter_partitions(self.context, state.leader, {partition: wanted}, version))
        self.cluster.run(complete_reassignments(self.context, results))
        if lag > 0:
            assert results[partition] is ErrorCode.not_controller

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data())
    def catch_up(self, data: st.DataObject) -> None:
        """All live replicas get in sync, so that reassignments come to an end."""
        partition = self.pick(data)
        state = self.cluster.states[partition]
        if state.leader not in self.cluster.told:
            return
        live = [one for one in self.context.replicas(partition) if self.context.is_replica_online(one, partition)]
        isr = tuple(dict.fromkeys((state.leader, *live)))
        if not set(isr) <= self.context.live_broker_ids:
            return
        wanted = WantedIsr(state.leader_epoch, isr, LeaderRecoveryState.RECOVERED, state.partition_epoch)
        results = self.cluster.run(alter_partitions(self.context, state.leader, {partition: wanted}, 3))
        self.cluster.run(complete_reassignments(self.context, results))

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data(), wanted=st.none() | replica_lists, by_znode=st.booleans())
    def reassign(self, data: st.DataObject, wanted: tuple[int, ...] | None, by_znode: bool) -> None:
        partition = self.pick(data)
        if by_znode and wanted is not None and set(wanted) <= self.context.live_broker_ids:
            self.cluster.reassignments = {partition: wanted}
            self.cluster.run(reassign_from_znode(self.context, self.cluster.reassignments))
        else:
            self.cluster.run(reassign(self.context, {partition: wanted}))

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data(), by_znode=st.booleans())
    def prefer(self, data: st.DataObject, by_znode: bool) -> None:
        partition = self.pick(data)
        if by_znode:
            self.cluster.preferred_elections = {partition}
            self.cluster.run(elect_from_znode(self.context, [partition]))
            assert self.cluster.preferred_elections is None
        else:
            answers = self.cluster.run(elect_leaders(self.context, [partition], ElectionType.PREFERRED))
            assert answers.keys() == {partition}

    @rule(percentage=st.integers(0, 100))
    def balance(self, percentage: int) -> None:
        self.cluster.run(rebalance(self.context, percentage))

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data())
    def elect_unclean(self, data: st.DataObject) -> None:
        self.cluster.is_forced_unclean = True
        self.cluster.run(elect_leaders(self.context, [self.pick(data)], ElectionType.UNCLEAN))
        self.cluster.is_forced_unclean = False

    @rule(topic=topics)
    def allow_unclean(self, topic: str) -> None:
        self.cluster.unclean.add(topic)
        self.cluster.run(bring_online(self.context, topic))

    @rule(broker_id=brokers)
    def shut_down(self, broker_id: int) -> None:
        broker = self.cluster.registered.get(broker_id)
        error, remaining = self.cluster.run(shut_down(self.context, broker_id, broker.epoch if broker else 1))
        if broker is None:
            assert error is ErrorCode.broker_not_available
        else:
            assert all(self.cluster.states[one].leader == broker_id for one in remaining)

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data(), broker_id=brokers)
    def fail_directory(self, data: st.DataObject, broker_id: int) -> None:
        partition = self.pick(data)
        if broker_id in self.context.replicas(partition) and broker_id in self.cluster.registered:
            self.cluster.failed_replicas.add((broker_id, partition))
            self.cluster.run(ask_for_failed_directories(self.context, [broker_id]))

    @precondition(lambda self: self.cluster.states)
    @rule(data=st.data())
    def shrink_outside(self, data: st.DataObject) -> None:
        """An old broker writes its in-sync replicas itself, and the controller hears of it later."""
        partition = self.pick(data)
        state = self.cluster.states[partition]
        if state.leader != -1:
            self.cluster.alter_outside(partition, (state.leader,))
            self.cluster.run(change_isrs(self.context, [partition] if partition in self.context.leaders else []))

    @precondition(lambda self: self.cluster.states)
    @rule(broker_id=brokers)
    def lose_broker_while_versions_change(self, broker_id: int) -> None:
        """Before each write somebody else wrote: it fails with BAD_VERSION, once."""
        seen: set[TopicPartition] = set()

        def interfere(write: ControllerWrite) -> ZooKeeperError | None:
            if isinstance(write, SetPartitionState) and write.partition not in seen:
                seen.add(write.partition)
                state = self.cluster.states.get(write.partition)
                if state is not None:
                    raised = replace(state, partition_epoch=state.partition_epoch + 1)
                    self.cluster.states[write.partition] = raised
            return None

        if broker_id in self.cluster.registered:
            self.cluster.before_write = interfere
            self.cluster.kill(broker_id)
            self.cluster.run(change_brokers(self.context, dict(self.cluster.registered)))
            self.cluster.before_write = lambda _: None
            self.cluster.run(change_isrs(self.context, [one for one in seen if one in self.context.leaders]))

    @rule(controller_id=brokers, after=st.integers(0, 6), killed=brokers)
    def lose_controller(self, controller_id: int, after: int, killed: int) -> None:
        """Another controller takes over after a few writes of this one, in the middle of what it does."""
        count = 0

        def takes_over(_: ControllerWrite) -> ZooKeeperError | None:
            nonlocal count
            count += 1
            if count > after:
                raise ControllerMovedError
            return None

        self.cluster.before_write = takes_over
        if killed in self.cluster.registered:
            self.cluster.kill(killed)
        try:
            self.cluster.run(change_brokers(self.context, dict(self.cluster.registered)))
        except ControllerMovedError:
            self.cluster.unsent.clear()
        self.cluster.before_write = lambda _: None
        self.cluster.become_controller(controller_id)

    @invariant()
    def holds(self) -> None:
        self.cluster.check()


TestController = ControllerMachine.TestCase
TestController.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
