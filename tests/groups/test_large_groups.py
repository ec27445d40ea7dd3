"""What one member of a group asks costs the same, however many others there are. A rebalance costs each of them once."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from harness.group_requests import REBALANCE_MS, SESSION_MS, subscription
from oncelog.coordination import Promise
from oncelog.coordination.decision import Draft
from oncelog.groups.classic import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from oncelog.groups.classic.decision_builder import MembershipDecision
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.membership import ClassicMembership, MembershipLimits
from oncelog.groups.consumer import HeartbeatRequest
from oncelog.groups.consumer.volatile_state import Deadlines
from oncelog.groups.context import Timestamps
from tests.groups.consumers_in_memory import Consumer, ConsumersInMemory
from tests.groups.group_in_memory import GROUP, START

SIZE = 20


class Members:
    """A coordinator that counts how often it looks at all of a group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.membership = ClassicMembership(MembershipLimits(first_delay_ms=1000))
        self.now = START
        self.looks = 0
        self._numbers = count()
        for kind, name in ((Draft, "__iter__"), (ClassicGroup, "look_at_deadlines")):
            monkeypatch.setattr(kind, name, self._counting(getattr(kind, name)))

    def _counting(self, look):
        def counted(one):
            self.looks += 1
            return look(one)

        return counted

    def join(self, member_id: str = "", topic: str = "t") -> Promise[JoinAnswer]:
        reply: Promise[JoinAnswer] = Promise()
        protocols = (("range", subscription(topic)),)
        request = JoinRequest(
            GROUP, member_id, None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, needs_member_id=True
        )
        self._carry_out(self.membership.join(request, reply, self.now, lambda: UUID(int=next(self._numbers))))
        return reply

    def sync(self, member_id: str, **assignments: bytes) -> Promise[SyncAnswer]:
        reply: Promise[SyncAnswer] = Promise()
        request = SyncRequest(GROUP, member_id, None, 1, "consumer", "range", assignments)
        self._carry_out(self.membership.sync(request, reply, self.now))
        return reply

    def pass_deadline(self) -> None:
        deadline_ms = self.membership.next_deadline_ms(GROUP)
        assert deadline_ms is not None
        self.now = Timestamps(self.now.wall_ms, deadline_ms)
        self._carry_out(self.membership.expire(GROUP, self.now))

    def _carry_out(self, decision: MembershipDecision) -> None:
        for record in decision.records:
            self.membership.replay(record)
        decision.remember()
        for due in decision.answer:
            due.give()
        self.membership.next_deadline_ms(GROUP)


def test_who_joins_and_waits_is_all_that_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members(monkeypatch)
    ids = [members.join().value.member_id for _ in range(SIZE)]
    joins = [members.join(ids[0])]
    members.looks = 0
    joins += [members.join(member_id) for member_id in ids[1:]]
    assert members.looks == 0
    while not joins[0].is_resolved:
        members.pass_deadline()
    assert {join.value.generation for join in joins} == {1}
    members.looks = 0
    leader = joins[0].value.leader
    syncs = [members.sync(member_id) for member_id in ids if member_id != leader]
    assert members.looks == 0
    members.sync(leader, **dict.fromkeys(ids, b"a"))
    assert {sync.value.assignment for sync in syncs} == {b"a"}
    members.looks = 0
    for member_id in ids:
        assert members.membership.heartbeat(GROUP, member_id, None, 1, members.now).answer.value == 0
    again = [members.join(ids[0], "u")]
    looks_to_begin = members.looks
    again += [members.join(member_id, "u") for member_id in ids[1:-1]]
    assert members.looks == looks_to_begin
    again.append(members.join(ids[-1], "u"))
    assert {join.value.generation for join in again} == {2}


def test_deadline_that_a_heartbeat_has_moved_is_no_one_s_when_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members(monkeypatch)
    member_id = members.join().value.member_id
    join = members.join(member_id)
    while not join.is_resolved:
        members.pass_deadline()
    assert join.value.generation == 1
    members.sync(member_id, **{member_id: b"a"})
    began_ms = members.now.steady_ms
    members.now = Timestamps(members.now.wall_ms, began_ms + SESSION_MS - 1)
    members.membership.heartbeat(GROUP, member_id, None, 1, members.now).remember()
    heard_ms = members.now.steady_ms
    while members.now.steady_ms < heard_ms + SESSION_MS:
        assert members.membership.find(GROUP).members
        members.pass_deadline()
    assert members.now.steady_ms == heard_ms + SESSION_MS
    assert not members.membership.find(GROUP).members


class Looked(dict):
    """Counts how often somebody goes through it."""

    looks = 0

    def __iter__(self):
        Looked.looks += 1
        return super().__iter__()

    def keys(self):
        Looked.looks += 1
        return super().keys()

    def items(self):
        Looked.looks += 1
        return super().items()

    def values(self):
        Looked.looks += 1
        return super().values()

    copy = None


def of_the_consumer_protocol(monkeypatch: pytest.MonkeyPatch) -> tuple[ConsumersInMemory, list[Consumer]]:
    """A settled group. From now on each look at all of it is counted."""
    groups = ConsumersInMemory()
    groups.topics.make("t", SIZE)
    consumers = [Consumer(groups, f"member-{number}", ("t",)) for number in range(SIZE)]
    for _ in range(4):
        for one in consumers:
            one.turn()
    group = groups.group
    assert group is not None
    assert [len(one.owned) for one in consumers] == [1] * SIZE
    group.members, group.target = Looked(group.members), Looked(group.target)

    def look(deadlines: Deadlines) -> None:
        Looked.looks += 1
        deadlines.next_ms = min(deadlines._until_ms.values(), default=float("inf"))

    def iterate(_: Draft[str, float]):
        Looked.looks += 1
        raise AssertionError("a decision that changes nothing looks at all of a group")

    monkeypatch.setattr(Deadlines, "look", look)
    monkeypatch.setattr(Draft, "__iter__", iterate)
    Looked.looks = 0
    return groups, consumers


def heartbeat(groups: ConsumersInMemory, one: Consumer) -> float:
    """The next deadline after one more heartbeat."""
    members, reply = groups.coordinator.members, Promise()
    request = HeartbeatRequest(GROUP, one.member_id, one.epoch, owned=one.owned)
    decision = members.consumer_heartbeat(request, reply, groups.now, lambda: UUID(int=1))
    assert not decision.records
    decision.remember()
    next_ms = members.next_deadline_ms(GROUP)
    assert next_ms is not None
    return next_ms


def test_heartbeat_of_the_consumer_protocol_looks_at_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, consumers = of_the_consumer_protocol(monkeypatch)
    session_ms = groups._limits.session_timeout_ms
    began_ms = groups.now.steady_ms
    groups.now = Timestamps(groups.now.wall_ms, began_ms + 100)
    for one in consumers:
        assert heartbeat(groups, one) == began_ms + session_ms
    assert Looked.looks == 0


def test_deadline_that_heartbeats_of_the_consumer_protocol_have_moved_is_no_one_s_when_it_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of the group are looked at once, and then it is quiet until the first of them would be due."""
    groups, consumers = of_the_consumer_protocol(monkeypatch)
    session_ms = groups._limits.session_timeout_ms
    began_ms = groups.now.steady_ms
    groups.now = Timestamps(groups.now.wall_ms, began_ms + session_ms - 1)
    for one in consumers:
        heartbeat(groups, one)
    groups.now = Timestamps(groups.now.wall_ms, began_ms + session_ms)
    decision = groups.coordinator.members.expire(GROUP, groups.now)
    assert not decision.records
    decision.remember()
    assert groups.coordinator.members.next_deadline_ms(GROUP) == began_ms + 2 * session_ms - 1
    monkeypatch.undo()
    groups.advance(session_ms - 1)
    assert groups.group is None or not groups.group.members
