"""Who is in the cluster, as its controller says it."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.broker.view import LEADER_DURING_DELETE, ClusterNode, Leadership
from oncelog.cluster.members import ClusterMembers, Member, MemberEndpoint

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
    members.hear(1, 5, connection_number=10)
    assert not members.is_current(4, connection_number=11)
    assert (members.controller_id, members.controller_epoch) == (1, 5)
    members.hear(2, 6, connection_number=3)
    members.hear(2, 6, connection_number=3)
    assert (members.controller_id, members.controller_epoch) == (2, 6)


def test_a_controller_is_not_heard_on_a_connection_that_it_has_left() -> None:
    members = ClusterMembers(CLIENTS)
    members.hear(1, 5, connection_number=10)
    members.hear(1, 5, connection_number=12)
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
