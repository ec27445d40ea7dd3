"""Asking until somebody answers, and what is told when nobody does."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from oncelog.client.admin.operations import ask_controller
from oncelog.client.errors import ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator
from oncelog.client.net.flows import InFlight, Send
from oncelog.client.net.metadata import refresh
from oncelog.client.requests import CREATE_TOPICS, HEARTBEAT, METADATA, ApiRequest
from oncelog.client.values import Address, Node, TopicPartition
from oncelog.wire import ErrorCode
from tests.client.net.parted_nodes import NODES, THREE, PartedCoordinator
from tests.client.scripted import SETTINGS, ScriptedTransport


class HangingUp:
    """A broker that hangs up on everybody. What a call asks at last is cut short by the end of the call."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport(self.answer)

    def answer(self, request: ApiRequest) -> ConnectionLost:
        if self.transport.now_ms < SETTINGS.call_timeout_ms / 2:
            return ConnectionLost("it hung up", sent=True)
        self.transport.now_ms = SETTINGS.call_timeout_ms
        return ConnectionLost("no connection in time", sent=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda cluster: refresh(cluster, ["t"]),
        lambda cluster: ask_coordinator(
            cluster, CoordinatorKind.GROUP, "g", ApiRequest(HEARTBEAT, {}), lambda _: ErrorCode.none, "a heartbeat"
        ),
    ],
    ids=["anybody", "the coordinator"],
)
def test_call_that_ends_in_the_middle_of_a_try_tells_of_the_one_before(ask):
    broker = HangingUp()
    with pytest.raises(RetriesExhausted, match="it hung up"):
        broker.transport.run(ask(Cluster(SETTINGS)))
    assert broker.transport.now_ms == SETTINGS.call_timeout_ms


@pytest.mark.parametrize("are_nodes_known", [False, True])
def test_coordinator_that_is_none_is_not_looked_for_at_the_node_that_named_it(are_nodes_known):
    cluster = Cluster(THREE)
    if are_nodes_known:
        cluster.nodes = {number: Node(number, *address, None) for number, address in enumerate(NODES)}
    transport = PartedCoordinator()
    beat = ApiRequest(HEARTBEAT, {})
    transport.run(
        ask_coordinator(cluster, CoordinatorKind.GROUP, "g", beat, lambda answer: answer.error_code, "a heartbeat")
    )
    assert transport.asked == NODES[1]


def test_leaders_that_are_none_are_looked_for_at_the_next_node_however_many_they_are():
    cluster = Cluster(THREE)
    assert cluster.addresses() == [NODES[0], NODES[1], NODES[2]]
    cluster.note_answer(NODES[0])
    for index in range(3):
        cluster.forget_leader(TopicPartition("t", index))
    assert cluster.addresses() == [NODES[1], NODES[2], NODES[0]]
    assert cluster.addresses() == [NODES[1], NODES[2], NODES[0]]


def test_nodes_known_come_before_bootstrap_servers_and_each_once():
    cluster = Cluster(THREE)
    known = Address("known", 9092)
    cluster.nodes = {number: Node(number, *address, None) for number, address in enumerate((known, NODES[1]))}
    assert cluster.addresses() == [known, NODES[1], NODES[0], NODES[2]]
    cluster.ask_last(NODES[1])
    assert cluster.addresses() == [NODES[0], NODES[2], known, NODES[1]]
    cluster.ask_last(Address("gone since", 9092))
    assert cluster.addresses() == [known, NODES[1], NODES[0], NODES[2]]


@pytest.mark.parametrize("answer", [ConnectionLost("it is dead", sent=False), ErrorCode.coordinator_not_available])
def test_node_that_cannot_say_who_coordinates_is_asked_last_from_then_on(answer):
    """It may be parted from the others for longer than a call."""
    asked = []

    class FirstIsParted(PartedCoordinator):
        def answer(self, request):
            asked.append(self.asked)
            if self.asked == NODES[0]:
                return answer if isinstance(answer, ConnectionLost) else SimpleNamespace(error_code=answer)
            return super().answer(request)

    cluster, transport = Cluster(THREE), FirstIsParted()
    for group in ("g", "h"):
        transport.run(cluster.coordinator(CoordinatorKind.GROUP, group, transport.run(cluster.retries())))
    assert asked == [NODES[0], NODES[1], NODES[1]]


@pytest.mark.parametrize("answer", [ConnectionLost("it is dead", sent=False), ErrorCode.not_controller])
def test_controller_that_is_none_is_not_looked_for_at_the_node_that_named_it(answer):
    class Parted(PartedCoordinator):
        def answer(self, request):
            if request.api is METADATA:
                nodes = [
                    SimpleNamespace(node_id=number, host=a.host, port=a.port, rack=None)
                    for number, a in enumerate(NODES)
                ]
                controller_id = 2 if self.asked == NODES[0] else 1
                return SimpleNamespace(controller_id=controller_id, brokers=nodes, topics=[])
            if self.asked == NODES[1]:
                return SimpleNamespace(error_code=ErrorCode.none, topics=[])
            return answer if isinstance(answer, ConnectionLost) else SimpleNamespace(error_code=answer, topics=[])

    transport = Parted()
    transport.run(ask_controller(Cluster(THREE), ApiRequest(CREATE_TOPICS, {}), "topics"))
    assert transport.asked == NODES[1]


@pytest.mark.parametrize("kind", [CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION])
def test_node_with_the_fewest_requests_is_asked_for_a_coordinator_and_for_metadata(kind):
    cluster = Cluster(THREE)
    cluster.nodes = {number: Node(number, *address, None) for number, address in enumerate(NODES)}
    asked: list[Address] = []

    class Transport(ScriptedTransport):
        def _perform(self, effect):
            if isinstance(effect, InFlight):
                return Counter({NODES[0]: 5, NODES[1]: 3, NODES[2]: 4})
            if isinstance(effect, Send):
                asked.append(effect.address)
            return super()._perform(effect)

    def answer(request):
        if request.api is METADATA:
            return SimpleNamespace(
                brokers=[SimpleNamespace(node_id=0, host="a", port=1, rack=None)], controller_id=0, topics=[]
            )
        return SimpleNamespace(error_code=ErrorCode.none, host="a", port=1)

    transport = Transport(answer)
    transport.run(cluster.coordinator(kind, "key", transport.run(cluster.retries())))
    transport.run(refresh(cluster, ["t"]))
    assert asked == [NODES[1], NODES[1]]


def test_node_that_is_doubted_is_asked_last_however_idle_it_is():
    cluster = Cluster(THREE)
    cluster.nodes = {number: Node(number, *address, None) for number, address in enumerate(NODES)}
    cluster.ask_last(NODES[1])

    class Transport(ScriptedTransport):
        def _perform(self, effect):
            if isinstance(effect, InFlight):
                return Counter({NODES[0]: 5, NODES[2]: 4})
            return super()._perform(effect)

    assert Transport(lambda request: None).run(cluster.least_loaded()) == [NODES[2], NODES[0], NODES[1]]
