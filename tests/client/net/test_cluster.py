"""Asking until somebody answers, and what is told when nobody does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from oncelog.client.errors import ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator, refresh
from oncelog.client.net.conversation import Send
from oncelog.client.requests import FIND_COORDINATOR, HEARTBEAT, ApiRequest
from oncelog.client.values import Address, Node, TopicPartition
from oncelog.wire import ErrorCode
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


NODES = tuple(Address(name, 9092) for name in ("parted", "one", "other"))
THREE = replace(SETTINGS, bootstrap=NODES)


class PartedCoordinator(ScriptedTransport):
    """The first node has lost the others, and does not hear that another one coordinates since."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.asked = NODES[0]

    def _perform(self, effect):
        if isinstance(effect, Send):
            self.asked = effect.address
        return super()._perform(effect)

    def answer(self, request: ApiRequest) -> SimpleNamespace:
        if request.api is FIND_COORDINATOR:
            coordinator = NODES[0] if self.asked == NODES[0] else NODES[1]
            return SimpleNamespace(error_code=ErrorCode.none, host=coordinator.host, port=coordinator.port)
        is_coordinator = self.asked == NODES[1]
        return SimpleNamespace(error_code=ErrorCode.none if is_coordinator else ErrorCode.not_coordinator)


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
    assert list(cluster.addresses()) == [NODES[0], NODES[1], NODES[2]]
    for index in range(3):
        cluster.forget_leader(TopicPartition("t", index))
    assert list(cluster.addresses()) == [NODES[1], NODES[2], NODES[0]]
    assert list(cluster.addresses()) == [NODES[1], NODES[2], NODES[0]]
