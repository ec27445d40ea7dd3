"""What the coordinators ask of the other brokers of a cluster: who leads what, and markers there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import TOPIC, WRITE_TXN_MARKERS, errors_of, fetch_request, known, led, produced, records
from oncelog.broker.coordinators.known_brokers import (
    AWAY,
    GONE,
    BrokerAddress,
    KnownBrokers,
    MarkersOfProducer,
    TopicOfOffsets,
)
from oncelog.broker.view import LEADER_DURING_DELETE, ClusterNode, Leadership
from oncelog.cluster import members as cluster_members
from oncelog.cluster.members import ClusterMembers, Member, MemberEndpoint
from oncelog.cluster.zookeeper import asking
from oncelog.cluster.zookeeper.session import Create, GetChildren, GetData, Request, Result, ZooKeeper, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.coordination import Promise
from oncelog.wire import ErrorCode, message_module

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
NONE = ErrorCode.none
LED_HERE, LED_THERE, LED_BY_NOBODY = 0, 1, 2
MARKERS = MarkersOfProducer(4_000, 3, 7, 1, True, ((TOPIC, LED_THERE),))


class Known:
    """A broker that leads one partition; another broker leads the second, and nobody the third."""

    def __init__(self, **settings: str) -> None:
        self.cluster = ClusterInMemory(BROKER, **settings)
        self.controller = PlayedController(self.cluster)
        self.other = PlayedBroker(self.cluster, OTHER)
        self.controller.members.append(self.other.member)
        self.controller.starts(BROKER)
        for leader, index in ((BROKER, LED_HERE), (OTHER, LED_THERE), (-1, LED_BY_NOBODY)):
            self.controller.update(BROKER, known(leader, 0, BOTH, indexes=(index,)))
        self.order(0)

    def order(self, epoch: int, isr: tuple[int, ...] = BOTH, leader: int = BROKER) -> None:
        assert errors_of(self.controller.order(BROKER, led(leader, epoch, BOTH, isr))) == [NONE]

    @property
    def brokers(self) -> KnownBrokers:
        return self.cluster.core(BROKER).known_brokers


@pytest.fixture
def members() -> Known:
    return Known()


def test_the_leader_is_whom_the_controller_has_named(members: Known) -> None:
    assert members.brokers.leader_of(TOPIC, LED_HERE) == BROKER
    assert members.brokers.leader_of(TOPIC, LED_THERE) == OTHER
    assert members.brokers.leader_of(TOPIC, LED_BY_NOBODY) is AWAY
    assert members.brokers.leader_of(TOPIC, 3) is GONE
    assert members.brokers.leader_of("no such topic", 0) is GONE


ASK = asking.ask


def ask_by(monkeypatch: pytest.MonkeyPatch, ask: Callable[[ZooKeeper, Request], Awaitable[Result]]) -> None:
    for module in (asking, cluster_members):
        monkeypatch.setattr(module, "ask", ask)


@pytest.mark.parametrize(
    "ask_for_it",
    [lambda brokers: brokers.is_gone("new", 0), lambda brokers: brokers.deleted_topics({TopicOfOffsets("new", None)})],
)
def test_server_that_is_behind_catches_up_before_it_says_that_something_is_gone(
    members: Known, monkeypatch: pytest.MonkeyPatch, ask_for_it: Callable[[KnownBrokers], Promise[Any]]
) -> None:
    """ "ZooKeeper does not guarantee that at every instance in time, two different clients will have identical views of ZooKeeper
    data" (Programmer's Guide, Consistency Guarantees).
    """
    asked: list[object] = []

    async def ask(zookeeper: ZooKeeper, request: Request) -> Result:
        asked.append(request)
        return await ASK(zookeeper, request)

    ask_by(monkeypatch, ask)
    assert members.cluster.wait(ask_for_it(members.brokers))
    assert asked[0] == Create(paths.TOPICS)
    assert len(asked) > 1


@pytest.mark.parametrize("error", [ZooKeeperError.NO_AUTH, ZooKeeperError.SYSTEM_ERROR])
@pytest.mark.parametrize("refused", [Create(paths.TOPICS), GetData(paths.topic("new")), GetChildren(paths.TOPICS)])
def test_error_of_zookeeper_says_nothing_of_what_is_there(
    members: Known, monkeypatch: pytest.MonkeyPatch, error: ZooKeeperError, refused: Request
) -> None:
    members.cluster.create("new", UUID(int=1), (OTHER,))

    async def ask(zookeeper: ZooKeeper, request: Request) -> Result:
        return error if request == refused else await ASK(zookeeper, request)

    ask_by(monkeypatch, ask)
    assert not members.cluster.wait(members.brokers.is_gone("new", 0))
    assert not members.cluster.wait(members.brokers.deleted_topics({TopicOfOffsets("new", UUID(int=1))}))


def test_deleted_is_what_zookeeper_has_no_more_or_marks_or_has_under_another_id(members: Known) -> None:
    for name, number in (("there", 1), ("marked", 2), ("again", 4)):
        members.cluster.create(name, UUID(int=number), (OTHER,))
    members.cluster.submit(Create(paths.DELETE_TOPICS))
    members.cluster.submit(Create(paths.delete_topic("marked")))
    there = {TopicOfOffsets("there", UUID(int=1)), TopicOfOffsets("there", None), TopicOfOffsets("again", None)}
    deleted = {
        TopicOfOffsets("marked", UUID(int=2)),
        TopicOfOffsets("marked", None),
        TopicOfOffsets("again", UUID(int=3)),
        TopicOfOffsets("gone", None),
        TopicOfOffsets("gone", UUID(int=5)),
    }
    assert set(members.cluster.wait(members.brokers.deleted_topics(there | deleted))) == deleted


def test_nothing_is_deleted_for_sure_when_the_session_ends(members: Known) -> None:
    asked = members.brokers.deleted_topics([TopicOfOffsets("gone", None)])
    members.cluster.ensemble.expire(members.cluster.core(BROKER).metadata.zookeeper.session_id)
    assert list(members.cluster.wait(asked)) == []


def test_a_leader_that_is_dead_is_away(members: Known) -> None:
    members.controller.members = [one for one in members.controller.members if one.id != OTHER]
    members.controller.update(BROKER)
    assert members.brokers.leader_of(TOPIC, LED_THERE) is AWAY
    assert members.brokers.address_of(OTHER, "PLAINTEXT") is None


def test_a_broker_is_where_it_listens(members: Known) -> None:
    assert members.brokers.address_of(OTHER, "PLAINTEXT") == BrokerAddress(members.other.host, 9092)


def test_only_what_is_led_here_is_written_here(members: Known) -> None:
    assert members.brokers.partition(TOPIC, LED_HERE) is members.cluster.partition(BROKER)
    assert members.brokers.partition(TOPIC, LED_THERE) is None
    members.order(1, leader=OTHER)
    assert members.brokers.partition(TOPIC, LED_HERE) is None


def test_what_a_coordinator_has_written_is_committed_when_every_replica_has_it(members: Known) -> None:
    members.cluster.wait(members.cluster.produce(BROKER, records(b"a"), acks=1))
    committed = members.brokers.committed(members.cluster.partition(BROKER))
    members.cluster.rest(500)
    assert not committed.is_resolved
    members.cluster.ask(BROKER, fetch_request(OTHER, 1, leader_epoch=0))
    assert members.cluster.wait(committed) is NONE


def test_what_is_not_led_any_more_is_not_committed(members: Known) -> None:
    members.cluster.wait(members.cluster.produce(BROKER, records(b"a"), acks=1))
    partition = members.cluster.partition(BROKER)
    committed = members.brokers.committed(partition)
    members.order(1, leader=OTHER)
    assert members.cluster.wait(committed) is ErrorCode.not_leader_or_follower
    assert members.cluster.wait(members.brokers.committed(partition)) is ErrorCode.not_leader_or_follower


def _marked(error: ErrorCode) -> Callable[[Any], Any]:
    def answer(body: Any) -> Any:
        types = message_module(WRITE_TXN_MARKERS, body.__version__, "response")
        (marker,) = body.markers
        topics = tuple(
            types.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    types.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        )
        result = types.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
        return types.WriteTxnMarkersResponse(markers=(result,))

    return answer


@pytest.mark.parametrize("error", [NONE, ErrorCode.not_leader_or_follower])
def test_markers_are_answered_partition_by_partition(members: Known, error: ErrorCode) -> None:
    members.other.answers[WRITE_TXN_MARKERS] = _marked(error)
    answered = members.cluster.wait(members.brokers.send_markers(OTHER, [MARKERS]))
    assert answered == {(4_000, TOPIC, LED_THERE): error}
    ((marker,),) = (body.markers for body in members.other.asked(WRITE_TXN_MARKERS))
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (4_000, 3, 7)
    assert marker.transaction_result


def test_markers_without_an_answer_are_to_be_sent_again(members: Known) -> None:
    waiting = members.brokers.send_markers(OTHER, [MARKERS])
    members.cluster.until(lambda: bool(members.other.asked(WRITE_TXN_MARKERS)))
    members.other.hang_up()
    assert members.cluster.wait(waiting) is None


def test_markers_for_a_broker_that_is_not_there_are_to_be_sent_again(members: Known) -> None:
    assert members.cluster.wait(members.brokers.send_markers(7, [MARKERS])) is None


def test_what_was_below_the_high_watermark_is_committed_however_many_are_in_sync_by_then() -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND is for producers: the record stays where it is."""
    members = Known(min_insync_replicas="2")
    members.cluster.wait(members.cluster.produce(BROKER, records(b"a"), acks=1))
    members.cluster.ask(BROKER, fetch_request(OTHER, 1, leader_epoch=0))
    members.order(1, (BROKER,))
    assert members.cluster.wait(members.brokers.committed(members.cluster.partition(BROKER))) is NONE
    refused = produced(members.cluster.wait(members.cluster.produce(BROKER, records(b"a"))))[0]
    assert refused is ErrorCode.not_enough_replicas


CLIENTS, INTERNAL = "CLIENTS", "INTERNAL"
FIRST = Member(1, (MemberEndpoint(CLIENTS, "one", 9092), MemberEndpoint(INTERNAL, "inside", 9093)), "rack-a")
SECOND = Member(2, (MemberEndpoint(INTERNAL, "two", 9093),), None)


@dataclass
class Led:
    leadership: Leadership
    leader_epoch: int = 0
    is_offline: bool = False


def test_a_broker_is_where_it_listens_under_the_name_of_the_listener() -> None:
    members = ClusterMembers(CLIENTS)
    members.are_now([FIRST])
    assert members.broker(1) == ClusterNode(1, "one", 9092, "rack-a")
    assert members.brokers() == (ClusterNode(1, "one", 9092, "rack-a"),)
    members = ClusterMembers(INTERNAL)
    members.are_now([FIRST, SECOND])
    assert [(one.host, one.port) for one in members.brokers()] == [("inside", 9093), ("two", 9093)]


def test_a_broker_without_that_listener_is_not_reached() -> None:
    """Kafka's MetadataCache leaves out brokers that have no endpoint of the listener."""
    members = ClusterMembers(CLIENTS)
    members.are_now([FIRST, SECOND])
    assert members.broker(2) is None
    assert 2 not in members


def test_clients_of_a_listener_see_those_that_have_it() -> None:
    members = ClusterMembers(INTERNAL)
    assert members.at(CLIENTS).brokers() == ()
    members.are_now([FIRST, SECOND])
    assert members.at(CLIENTS).brokers() == (ClusterNode(1, "one", 9092, "rack-a"),)
    assert members.at(INTERNAL) is members
    assert members.at("NOBODY'S").brokers() == ()
    hidden = Led(Leadership(2, 7, (1, 2), (1, 2)))
    assert members.at(CLIENTS).leadership(hidden).leader == -1
    assert members.leadership(hidden).leader == 2
    assert members.is_alive(2)
    members.are_now([FIRST])
    assert not members.is_alive(2)
    assert [one.host for one in members.at(CLIENTS).brokers()] == ["one"]


def test_those_that_are_named_are_all_that_there_are() -> None:
    members = ClusterMembers(INTERNAL)
    members.are_now([FIRST, SECOND])
    members.are_now([SECOND])
    assert 1 not in members
    assert 2 in members


def test_an_earlier_controller_is_not_heard() -> None:
    members = ClusterMembers(CLIENTS)
    assert members.controller_id == -1
    members.record_controller(1, 5, connection_number=10)
    assert not members.is_current(4, connection_number=11)
    assert (members.controller_id, members.controller_epoch) == (1, 5)
    members.record_controller(2, 6, connection_number=3)
    members.record_controller(2, 6, connection_number=3)
    assert (members.controller_id, members.controller_epoch) == (2, 6)


def test_a_controller_is_not_heard_on_a_connection_that_it_has_left() -> None:
    members = ClusterMembers(CLIENTS)
    members.record_controller(1, 5, connection_number=10)
    members.record_controller(1, 5, connection_number=12)
    assert not members.is_current(5, connection_number=11)
    assert members.is_current(5, connection_number=12)
    assert members.is_current(6, connection_number=11)


def test_a_leader_that_is_not_alive_is_none() -> None:
    """Kafka's MetadataCache: "leader not available" where the leader has no endpoint; the epoch and the replicas stay."""
    members = ClusterMembers(CLIENTS)
    known = Leadership(1, 7, (1, 2), (1,), (2,))
    assert members.leadership(Led(known)) == Leadership(-1, 7, (1, 2), (1,), (2,))
    members.are_now([FIRST])
    assert members.leadership(Led(known)) == known


def test_who_has_no_leader_has_none_also_when_it_is_deleted() -> None:
    members = ClusterMembers(CLIENTS)
    for leader in (-1, LEADER_DURING_DELETE):
        known = Leadership(leader, 7, (1, 2), (1,))
        assert members.leadership(Led(known)) == known
