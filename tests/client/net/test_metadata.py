"""What is believed of topics and their leaders when nodes say different things."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from oncelog.client.errors import ClientError, ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Wait
from oncelog.client.net.leaders import LeaderSearch
from oncelog.client.net.metadata import refresh, topics_of_every_node
from oncelog.client.requests import METADATA, ApiRequest
from oncelog.client.values import Address, TopicPartition
from oncelog.wire import ErrorCode
from tests.client.net.parted_nodes import NODES, THREE, PartedCoordinator
from tests.client.scripted import SETTINGS, ScriptedTransport


def test_leader_that_a_node_does_not_know_is_asked_for_at_another():
    """A node that is parted from the others does not hear of an election."""

    class Parted(PartedCoordinator):
        def answer(self, request):
            return _one_partition_led_by(-1 if self.asked == NODES[0] else 1)

    cluster, transport = Cluster(THREE), Parted()
    search = LeaderSearch(cluster, create=False)
    while cluster.leader(PARTITION) is None:
        transport.run(_look(search, transport))
    assert transport.asked == NODES[1]
    assert transport.names() == ["Metadata", "Metadata"]


PARTITION = TopicPartition("t", 0)
ELSEWHERE = Address("bootstrap.example", 9092)
TOPIC_ID = UUID(int=5)
LAST = TopicPartition("t", 1)


class Heard(PartedCoordinator):
    """Each node says what it has heard: of no partition of the topic, of one, of two, or of nobody and nothing, None."""

    def __init__(self, *partitions: int | None) -> None:
        super().__init__()
        self._partitions = dict(zip(NODES, partitions, strict=True))

    def answer(self, request: ApiRequest) -> SimpleNamespace:
        count = self._partitions[self.asked]
        return SimpleNamespace(controller_id=-1, brokers=[], topics=[_topic(0)]) if count is None else _metadata(count)


ASKED_AND_KNOWN = [
    ((0, 0, 2), 3),
    ((0, 2, 0), 2),
    ((2, 0, 0), 1),
    ((1, 2, 0), 2),
    ((None, 0, 2), 3),
    ((None, None, 2), 3),
]


@pytest.mark.parametrize(("heard", "asked"), ASKED_AND_KNOWN)
def test_topic_that_a_node_has_not_heard_of_is_known_by_who_made_it(heard, asked):
    """ "When talking to the startup phase of a broker, it is possible to receive an empty metadata set" (NetworkClient)."""
    cluster, transport = Cluster(THREE), Heard(*heard)
    (topic,) = transport.run(refresh(cluster, ["t"], wanted=[LAST]))
    assert (topic.error, len(topic.partitions)) == (ErrorCode.none, 2)
    assert cluster.leader(LAST) == NODES[1]
    assert len(transport.requests) == asked


@pytest.mark.parametrize(("heard", "asked"), ASKED_AND_KNOWN)
def test_leader_is_looked_for_until_a_node_has_heard_of_the_topic(heard, asked):
    cluster, transport = Cluster(THREE), Heard(*heard)
    search = LeaderSearch(cluster, create=False)
    while cluster.leader(LAST) is None:
        assert transport.run(_look(search, transport, LAST)) == {}
    assert len([1 for request in transport.requests if request.api is METADATA]) == asked


@pytest.mark.parametrize(("heard", "count"), [((0, 0, 0), 0), ((1, 1, 1), 1), ((1, 0, 1), 1)])
def test_topic_that_no_node_has_heard_of_is_not_there(heard, count):
    transport = Heard(*heard)
    (topic,) = transport.run(refresh(Cluster(THREE), ["t"], wanted=[LAST]))
    assert topic.error is (ErrorCode.none if count else ErrorCode.unknown_topic_or_partition)
    assert len(topic.partitions) == count
    assert len(transport.requests) == len(NODES)
    search, never = LeaderSearch(Cluster(THREE), create=False), {}
    while not never:
        never = transport.run(_look(search, transport, LAST))
    assert never[LAST].error is ErrorCode.unknown_topic_or_partition
    assert len(transport.requests) == 2 * len(NODES)


class FirstToStart(PartedCoordinator):
    """The first node of a cluster that starts again: for a while it is alone, and was not told of the topic yet."""

    def answer(self, request: ApiRequest) -> SimpleNamespace | ConnectionLost:
        if self.now_ms > 2 * SETTINGS.retry.backoff_ms:
            return _metadata(2)
        if self.asked != NODES[0]:
            return ConnectionLost("it has not started", sent=False)
        node = SimpleNamespace(node_id=0, host=NODES[0].host, port=NODES[0].port, rack=None)
        return SimpleNamespace(controller_id=0, brokers=[node], topics=[_topic(0)])


@pytest.mark.parametrize("knows_all", [False, True])
def test_node_that_is_alone_at_a_start_is_not_believed_that_a_topic_is_gone(knows_all):
    cluster, transport = Cluster(THREE if not knows_all else replace(SETTINGS, bootstrap=NODES[:1])), FirstToStart()
    if knows_all:
        cluster.learn(_metadata(0), asked_for_all=False)
    (topic,) = transport.run(refresh(cluster, ["t"]))
    assert (topic.error, len(topic.partitions)) == (ErrorCode.none, 2)
    again, search = FirstToStart(), LeaderSearch(cluster, create=False)
    cluster.forget_leader(PARTITION)
    while cluster.leader(PARTITION) is None:
        assert again.run(_look(search, again)) == {}


def test_topic_that_was_read_and_is_not_in_the_list_of_all_is_asked_for_by_name():
    cluster, transport = Cluster(THREE), Heard(0, 1, 2)
    transport.run(refresh(cluster, None, wanted=[LAST]))
    assert len(cluster.topics["t"].partitions) == 2
    assert [request.fields["topics"] for request in transport.requests] == [None, [{"name": "t"}], [{"name": "t"}]]


@pytest.mark.parametrize("heard", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 2, 2), (0, None, 2)])
def test_topics_of_every_node_are_those_that_one_knows_with_the_partitions_that_one_knows(heard):
    transport = Heard(*heard)
    (topic,) = transport.run(topics_of_every_node(Cluster(THREE)))
    assert (topic.error, len(topic.partitions)) == (ErrorCode.none, 2)
    assert [request.fields["topics"] for request in transport.requests] == [None] * 3


@pytest.mark.parametrize("heard", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 2, 2)])
def test_topics_that_are_named_have_the_partitions_that_one_node_knows(heard):
    named = Heard(*heard)
    (topic,) = named.run(topics_of_every_node(Cluster(THREE), ["t"]))
    assert (topic.error, len(topic.partitions)) == (ErrorCode.none, 2)
    assert all(request.fields["topics"] == [{"name": "t"}] for request in named.requests)


class LastHasHeard(PartedCoordinator):
    """The last node alone has heard of the second partition. The first has another address, too, and may name itself alone."""

    def __init__(self, *, is_first_alone: bool) -> None:
        super().__init__()
        self._is_first_alone = is_first_alone

    def answer(self, request: ApiRequest) -> SimpleNamespace:
        answer = _metadata(2 if self.asked == NODES[2] else 1)
        if self._is_first_alone and self.asked == NODES[0]:
            answer.brokers = answer.brokers[:1]
        return answer


@pytest.mark.parametrize("bootstrap", [NODES, (ELSEWHERE,), (NODES[1], NODES[0])])
@pytest.mark.parametrize("is_first_alone", [False, True])
def test_every_node_is_asked_whatever_the_bootstrap_servers_are_and_the_first_node_names(bootstrap, is_first_alone):
    transport = LastHasHeard(is_first_alone=is_first_alone)
    (topic,) = transport.run(topics_of_every_node(Cluster(replace(SETTINGS, bootstrap=bootstrap))))
    assert len(topic.partitions) == 2


def test_leader_epoch_that_one_node_has_told_is_not_forgotten_for_one_that_knows_no_topic():
    """KIP-320: the newest leader epoch that was heard of counts."""

    class NewestFirst(PartedCoordinator):
        def answer(self, request):
            answer = _metadata(2)
            epoch = {NODES[0]: 5, NODES[2]: 3}.get(self.asked)
            topics = [] if epoch is None else answer.topics
            for partition in topics and topics[0].partitions:
                partition.leader_epoch = epoch
            topics = [SimpleNamespace(**vars(topic), topic_id=TOPIC_ID) for topic in topics]
            return SimpleNamespace(**{**vars(answer), "topics": topics})

    cluster = Cluster(THREE)
    NewestFirst().run(topics_of_every_node(cluster))
    assert cluster.leader_epoch(LAST) == 5


@pytest.mark.parametrize("dead", NODES)
def test_node_that_does_not_answer_is_left_out(dead):
    class OneIsDead(Heard):
        def answer(self, request):
            return ConnectionLost("it is dead", sent=False) if self.asked == dead else super().answer(request)

    (topic,) = OneIsDead(2, 2, 2).run(topics_of_every_node(Cluster(THREE)))
    assert len(topic.partitions) == 2


def test_topic_of_every_node_is_looked_for_until_a_node_that_starts_has_heard_of_it():
    (topic,) = FirstToStart().run(topics_of_every_node(Cluster(THREE), ["t"]))
    assert (topic.error, len(topic.partitions)) == (ErrorCode.none, 2)


def test_cluster_that_says_nothing_of_itself_is_asked_until_the_call_ends():
    transport = Heard(None, None, None)
    with pytest.raises(RetriesExhausted, match="LEADER_NOT_AVAILABLE"):
        transport.run(refresh(Cluster(THREE), None))
    assert transport.now_ms >= SETTINGS.call_timeout_ms


def _one_partition_led_by(leader_id: int) -> SimpleNamespace:
    return _metadata(1, leader_id)


def _metadata(count: int, leader_id: int = 1) -> SimpleNamespace:
    nodes = [SimpleNamespace(node_id=number, host=a.host, port=a.port, rack=None) for number, a in enumerate(NODES)]
    return SimpleNamespace(controller_id=1, brokers=nodes, topics=[_topic(count, leader_id)])


def _topic(count: int, leader_id: int = 1) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(
            error_code=ErrorCode.none, partition_index=index, leader_id=leader_id, replica_nodes=(1,), isr_nodes=(1,)
        )
        for index in range(count)
    ]
    error = ErrorCode.none if count else ErrorCode.unknown_topic_or_partition
    return SimpleNamespace(error_code=error, name="t", is_internal=False, partitions=partitions)


async def _look(
    search: LeaderSearch, transport: ScriptedTransport, partition: TopicPartition = PARTITION
) -> dict[TopicPartition, ClientError]:
    await search.look([partition], transport.now_ms)
    await Wait(search.awaited, 1000)
    return await search.take()
