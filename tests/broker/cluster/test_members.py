"""Who is in the cluster, as its controller says it."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.broker.cluster.members import Endpoint, Member, Members
from oncelog.broker.view import LEADER_DURING_DELETE, Leadership, Node

CLIENTS, INTERNAL = "CLIENTS", "INTERNAL"
FIRST = Member(1, (Endpoint(CLIENTS, "one", 9092), Endpoint(INTERNAL, "inside", 9093)), "rack-a")
SECOND = Member(2, (Endpoint(INTERNAL, "two", 9093),), None)


@dataclass
class Led:
    leadership: Leadership
    leader_epoch: int = 0
    is_offline: bool = False


def test_a_broker_is_where_it_listens_under_the_name_of_the_listener() -> None:
    members = Members(CLIENTS)
    members.are_now([FIRST])
    assert members.broker(1) == Node(1, "one", 9092, "rack-a")
    assert members.brokers() == (Node(1, "one", 9092, "rack-a"),)
    members = Members(INTERNAL)
    members.are_now([FIRST, SECOND])
    assert [(one.host, one.port) for one in members.brokers()] == [("inside", 9093), ("two", 9093)]


def test_a_broker_without_that_listener_is_not_reached() -> None:
    """Kafka's MetadataCache leaves out brokers that have no endpoint of the listener."""
    members = Members(CLIENTS)
    members.are_now([FIRST, SECOND])
    assert members.broker(2) is None
    assert 2 not in members


def test_those_that_are_named_are_all_that_there_are() -> None:
    members = Members(INTERNAL)
    members.are_now([FIRST, SECOND])
    members.are_now([SECOND])
    assert 1 not in members
    assert 2 in members


def test_an_earlier_controller_is_not_heard() -> None:
    members = Members(CLIENTS)
    assert members.controller_id == -1
    assert members.hear(1, 5)
    assert not members.hear(2, 4)
    assert (members.controller_id, members.controller_epoch) == (1, 5)
    assert members.hear(2, 6)
    assert members.hear(2, 6)
    assert (members.controller_id, members.controller_epoch) == (2, 6)


def test_a_leader_that_is_not_alive_is_none() -> None:
    """Kafka's MetadataCache: "leader not available" where the leader has no endpoint; the epoch and the replicas stay."""
    members = Members(CLIENTS)
    known = Leadership(1, 7, (1, 2), (1,), (2,))
    assert members.leadership(Led(known)) == Leadership(-1, 7, (1, 2), (1,), (2,))
    members.are_now([FIRST])
    assert members.leadership(Led(known)) == known


def test_who_has_no_leader_has_none_also_when_it_is_deleted() -> None:
    members = Members(CLIENTS)
    for leader in (-1, LEADER_DURING_DELETE):
        known = Leadership(leader, 7, (1, 2), (1,))
        assert members.leadership(Led(known)) == known
