"""Asking leaders and nodes of which one is not there: what is told at the end, and that the others are asked again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.client.admin.operations import ask_every_node
from oncelog.client.admin.transactions import describe_producers
from oncelog.client.errors import BrokerRefused, ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.requests import LIST_GROUPS, METADATA, ApiRequest
from oncelog.client.values import TopicPartition
from oncelog.wire import ErrorCode
from tests.client.scripted import HERE, SETTINGS, ScriptedTransport

PARTITION = TopicPartition("solo", 1)
GONE = ConnectionLost("connection refused", sent=False)


def metadata(*hosts: str) -> SimpleNamespace:
    """Of a topic whose partition has no leader, by a cluster of these nodes."""
    partition = SimpleNamespace(
        partition_index=1, leader_id=-1, replica_nodes=(1,), isr_nodes=(), error_code=ErrorCode.leader_not_available
    )
    return SimpleNamespace(
        controller_id=0,
        brokers=[SimpleNamespace(node_id=number, host=host, port=9092, rack=None) for number, host in enumerate(hosts)],
        topics=[SimpleNamespace(name="solo", is_internal=False, partitions=[partition], error_code=ErrorCode.none)],
    )


def test_call_that_ends_while_it_looks_for_a_leader_says_that_there_is_none():
    """What is asked at last is cut short by the end of the call."""

    def answer(_: ApiRequest) -> object:
        return metadata(HERE.host) if transport.now_ms < SETTINGS.call_timeout_ms else GONE

    transport = ScriptedTransport(answer)
    with pytest.raises(RetriesExhausted) as raised:
        transport.run(describe_producers(Cluster(SETTINGS), [PARTITION]))
    assert str(raised.value) == "describing the producers: no leader is known for solo-1"


def listing(transport: ScriptedTransport) -> list[str]:
    request = ApiRequest(LIST_GROUPS, {})
    found: list[str] = transport.run(ask_every_node(Cluster(SETTINGS), request, lambda answer: answer.read, "listing"))
    return found


class Nodes(ScriptedTransport):
    """Two, of which the second is dead, and named by the first until `forgotten_ms`."""

    def __init__(self, forgotten_ms: float, error: ErrorCode = ErrorCode.none) -> None:
        super().__init__(self.answer)
        self._forgotten_ms = forgotten_ms
        self._error = error
        self._listed = 0

    def answer(self, request: ApiRequest) -> object:
        if request.api is METADATA:
            self._listed = 0
            return metadata(HERE.host, *(["dead"] if self.now_ms < self._forgotten_ms else []))
        self._listed += 1
        return GONE if self._listed == 2 else SimpleNamespace(error_code=self._error, read=["a"])


def test_node_that_died_is_left_out_once_the_others_do_not_name_it():
    nodes = Nodes(SETTINGS.call_timeout_ms / 2)
    assert listing(nodes) == ["a"]
    assert nodes.now_ms >= SETTINGS.call_timeout_ms / 2


def test_node_that_stays_dead_and_is_named_is_said_at_the_end_of_the_call():
    nodes = Nodes(float("inf"))
    with pytest.raises(RetriesExhausted, match="listing: connection refused"):
        listing(nodes)
    assert nodes.now_ms >= SETTINGS.call_timeout_ms


def test_node_that_refuses_for_good_is_not_asked_again():
    nodes = Nodes(0, ErrorCode.cluster_authorization_failed)
    with pytest.raises(BrokerRefused):
        listing(nodes)
    assert nodes.names() == ["Metadata", "ListGroups"]
