"""What one member of a group asks costs the same, however many others there are. A rebalance costs each of them once."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from harness.group_requests import REBALANCE_MS, SESSION_MS, subscription
from oncelog.coordination import Parked
from oncelog.coordination.draft import Draft
from oncelog.groups.classic import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from oncelog.groups.classic.decision_builder import MembershipDecision
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.membership import ClassicMembership, MembershipLimits
from oncelog.groups.timestamps import Timestamps
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

    def join(self, member_id: str = "", topic: str = "t") -> Parked[JoinAnswer]:
        reply: Parked[JoinAnswer] = Parked()
        protocols = (("range", subscription(topic)),)
        request = JoinRequest(
            GROUP, member_id, None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, needs_member_id=True
        )
        self._carry_out(self.membership.join(request, reply, self.now, lambda: UUID(int=next(self._numbers))))
        return reply

    def sync(self, member_id: str, **assignments: bytes) -> Parked[SyncAnswer]:
        reply: Parked[SyncAnswer] = Parked()
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
    while not joins[0].is_released:
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
    while not join.is_released:
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
