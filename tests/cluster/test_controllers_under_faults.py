"""Controllers whose sessions end, whose connections break and whose brokers die at any moment: in the end all is led."""

from __future__ import annotations

from random import Random

import pytest

from oncelog.cluster.controller.requests import leader_and_isr, update_metadata
from oncelog.cluster.controller.znodes import decode_assignment
from oncelog.cluster.zookeeper.session import Children, Create, Data, Delete, GetChildren, GetData
from oncelog.cluster.zookeeper.znodes import decode_controller_epoch, encode_reassignments, paths
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble
from tests.cluster.controllers import ControllerNode, SimulatedCluster

BROKERS = (1, 2, 3, 4)
STEPS = 30
SETTLED_MS = 20_000


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedCluster()
        self.cluster.start_broker(*BROKERS)
        self.nodes = [self.cluster.start_controller(node_id) for node_id in (1, 2, 3)]
        self.told_before: list[object] = []
        self.topic_count = 0

    @property
    def ensemble(self) -> SimulatedEnsemble:
        return self.cluster.world.ensemble

    def ask(self, request):
        return self.cluster.world.ask(self.cluster.client, request)

    def step(self) -> None:
        actions = (
            self.create,
            self.kill,
            self.start,
            self.expire,
            self.cut,
            self.delete,
            self.depose,
            self.reassign,
        )
        self.random.choice(actions)()
        self.cluster.settle(self.random.choice((0.5, 2, 10, 50, 500)))

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.random.sample(BROKERS, self.random.randint(1, 3)))

    def create(self) -> None:
        self.topic_count += 1
        self.cluster.create(f"topic-{self.topic_count}", *[self.replicas() for _ in range(self.random.randint(1, 8))])

    def kill(self) -> None:
        if self.cluster.brokers:
            broker_id = self.random.choice(sorted(self.cluster.brokers))
            self.told_before.extend(self.cluster.brokers[broker_id].told)
            self.cluster.kill_broker(broker_id)

    def start(self) -> None:
        for broker_id in set(BROKERS) - self.cluster.brokers.keys():
            if self.ask(GetData(paths.broker(broker_id))) is not None and self.random.random() < 0.7:
                self.cluster.start_broker(broker_id)

    def node(self) -> ControllerNode:
        active = [node for node in self.nodes if node.controller.is_active]
        return self.random.choice(active or self.nodes)

    def expire(self) -> None:
        session_id = self.node().zookeeper.session_id
        if session_id in self.ensemble.session_ids:
            self.ensemble.expire(session_id)

    def cut(self) -> None:
        until_ms = self.cluster.world.queue.now_ms + self.random.choice((10, 300, 5000))
        node = self.node()
        self.ensemble.cut_off(f"controller-{node.node_id}", until_ms, silently=self.random.random() < 0.5)

    def topics(self) -> list[str]:
        found = self.ask(GetChildren(paths.TOPICS))
        assert isinstance(found, Children)
        return list(found.names)

    def delete(self) -> None:
        if topics := self.topics():
            self.ask(Create(paths.delete_topic(self.random.choice(topics))))

    def depose(self) -> None:
        self.ask(Delete(paths.CONTROLLER))

    def reassign(self) -> None:
        if topics := self.topics():
            targets = {(self.random.choice(topics), 0): self.replicas()}
            self.ask(Create(paths.REASSIGN_PARTITIONS, encode_reassignments(targets)))

    def settle(self) -> None:
        for broker_id in set(BROKERS) - self.cluster.brokers.keys():
            self.cluster.start_broker(broker_id)
        self.cluster.settle(SETTLED_MS)

    def check(self) -> None:
        active = [node for node in self.nodes if node.controller.is_active]
        assert len(active) == 1
        context = active[0].controller.context
        raised = self.ask(GetData(paths.CONTROLLER_EPOCH))
        assert isinstance(raised, Data)
        assert context.controller_epoch == decode_controller_epoch(raised.data)
        assert {node.controller.controller_id for node in self.nodes} == {active[0].node_id}
        for topic in self.topics():
            read = self.ask(GetData(paths.topic(topic)))
            assert isinstance(read, Data)
            is_deleted = isinstance(self.ask(GetData(paths.delete_topic(topic))), Data)
            if not is_deleted:
                for number, assignment in decode_assignment(topic, read).partitions.items():
                    self.check_led(topic, number, assignment.replicas)
            else:
                assert any(partition[0] == topic for partition in context.being_reassigned), f"{topic} stays"
        self.check_told()

    def check_led(self, topic: str, number: int, replicas: tuple[int, ...]) -> None:
        state = self.cluster.state(topic, number)
        assert state is not None, f"{topic}-{number} has a state"
        assert state.leader in state.isr
        assert state.leader in BROKERS
        assert set(state.isr) <= set(replicas)
        for broker_id in replicas:
            broker = self.cluster.brokers[broker_id]
            assert broker.leader_epoch(topic, number) == (state.leader, state.leader_epoch)

    def check_told(self) -> None:
        """Nobody was ever told of two leaders in one epoch; nobody hears of an older controller behind a newer one's."""
        leaders: dict[tuple[object, int, int], int] = {}
        now = [body for broker in self.cluster.brokers.values() for body in broker.told]
        for body in (*self.told_before, *now):
            if isinstance(body, leader_and_isr.LeaderAndIsrRequest):
                for state in body.topic_states:
                    for one in state.partition_states:
                        key = (state.topic_id, one.partition_index, one.leader_epoch)
                        if one.leader != -1:
                            assert leaders.setdefault(key, one.leader) == one.leader
        for broker in self.cluster.brokers.values():
            newest = [body for body in broker.told if isinstance(body, update_metadata.UpdateMetadataRequest)][-1]
            assert {one.id for one in newest.live_brokers} == set(BROKERS)


@pytest.mark.parametrize("seed", range(40))
def test_all_is_led_by_one_controller_when_faults_are_over(seed):
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
    play.settle()
    play.check()
