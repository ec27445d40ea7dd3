"""Asking until somebody answers, and what is told when nobody does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from oncelog.client.admin.operations import ask_controller
from oncelog.client.errors import ClientError, ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator, refresh, topics_of_every_node
from oncelog.client.net.conversation import Conversation, Send, Wait
from oncelog.client.net.leader_search import LeaderSearch
from oncelog.client.requests import CREATE_TOPICS, FIND_COORDINATOR, HEARTBEAT, METADATA, ApiRequest
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
    assert cluster.addresses() == [NODES[0], NODES[1], NODES[2]]
    cluster.believe(NODES[0])
    for index in range(3):
        cluster.forget_leader(TopicPartition("t", index))
    assert cluster.addresses() == [NODES[1], NODES[2], NODES[0]]
    assert cluster.addresses() == [NODES[1], NODES[2], NODES[0]]


def test_nodes_known_come_before_bootstrap_servers_and_each_once():
    cluster = Cluster(THREE)
    known = Address("known", 9092)
    cluster.nodes = {number: Node(number, *address, None) for number, address in enumerate((known, NODES[1]))}
    assert cluster.addresses() == [known, NODES[1], NODES[0], NODES[2]]
    cluster.doubt(NODES[1])
    assert cluster.addresses() == [NODES[0], NODES[2], known, NODES[1]]
    cluster.doubt(Address("gone since", 9092))
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


def _look(
    search: LeaderSearch, transport: ScriptedTransport, partition: TopicPartition = PARTITION
) -> Conversation[dict[TopicPartition, ClientError]]:
    yield from search.look([partition], transport.now_ms)
    yield Wait(search.tickets, 1000)
    return (yield from search.take())
