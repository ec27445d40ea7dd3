"""One JoinGroup: finds the member, checks that it may join, and begins a rebalance if it has to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from oncelog.coordination import Promise
from oncelog.groups.classic import rebalance
from oncelog.groups.classic.decision_builder import DecisionBuilder
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.member import (
    ClassicGroupMember,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    WaitsForJoin,
    WaitsForSync,
)
from oncelog.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from oncelog.wire import ErrorCode

# A new member cannot send heartbeats, for it does not know its id yet. One that has gone meanwhile is dropped after this time.
NEW_MEMBER_TIMEOUT_MS = 300_000
# An id begins with what the client calls itself, and must still fit into a string of the protocol.
ID_PREFIX_UNITS = 255


@dataclass(frozen=True, slots=True)
class Joining:
    """A request on its way into a group."""

    step: DecisionBuilder
    group: ClassicGroup
    request: JoinRequest
    reply: Promise[JoinAnswer]
    first_delay_ms: int
    size_max: int
    new_uuid: Callable[[], UUID]

    def decide(self) -> None:
        group, request = self.group, self.request
        if not self._has_room():
            group.remove(request.member_id)
            self._refuse(ErrorCode.group_max_size_reached, "")
            rebalance.complete_if_all_joined(self.step, group)
        elif not group.supports(request.protocol_type, (name for name, _ in request.protocols)):
            self._refuse(ErrorCode.inconsistent_group_protocol)
        elif not request.member_id:
            self._join_as_somebody_new()
        elif request.member_id in group.pending_joins and request.instance_id is None:
            self._add(request.member_id)
        else:
            error = group.check_member(request.member_id, request.instance_id)
            if error is not ErrorCode.none:
                self._refuse(error)
            else:
                self._join_again(group.members[request.member_id])

    def _has_room(self) -> bool:
        group, request = self.group, self.request
        if group.state is EMPTY or len(group.members) < self.size_max:
            return True
        member = group.members.get(request.member_id)
        if group.state is PREPARING_REBALANCE:
            # Those who have joined count: the last to come back to a group that has grown too large are left out.
            return (member is not None and member.has_joined) or group.joined_count < self.size_max
        return member is not None

    # --- somebody without an id

    def _join_as_somebody_new(self) -> None:
        group, request = self.group, self.request
        prefix = request.client_id if request.instance_id is None else request.instance_id
        member_id = f"{prefix[:ID_PREFIX_UNITS]}-{self.new_uuid()}"
        known = group.static_member(request.instance_id)
        if known is not None:
            self._take_place(known, member_id)
        elif request.instance_id is None and request.needs_member_id:
            # KIP-394: a client that does not come back with the id has never been a member.
            group.expect(member_id, self.step.now.steady_ms + request.session_timeout_ms)
            self._refuse(ErrorCode.member_id_required, member_id)
        else:
            self._add(member_id)

    def _add(self, member_id: str) -> None:
        group, request = self.group, self.request
        member = ClassicGroupMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            waits=WaitsForJoin(self.reply),
            is_new=True,
            session_deadline_ms=self.step.now.steady_ms + NEW_MEMBER_TIMEOUT_MS,
        )
        if not group.members:
            group.protocol_type = request.protocol_type
        rebalance.somebody_came(group)
        group.add(member)
        rebalance.rebalance_or_complete(self.step, group, self.first_delay_ms)

    # --- somebody known

    def _join_again(self, member: ClassicGroupMember) -> None:
        """A leader is listened to in any case: it may know of changes that no member's subscription shows."""
        group = self.group
        is_same = member.protocols == self.request.protocols
        if group.state is COMPLETING_REBALANCE and is_same:
            # It may have missed the answer.
            self.step.answer(self.reply, group.join_answer(member))
        elif group.state is STABLE and is_same and member.member_id != group.leader:
            self.step.answer(self.reply, group.join_answer(member))
        else:
            self._update(member)
            rebalance.rebalance_or_complete(self.step, group, self.first_delay_ms)

    def _update(self, member: ClassicGroupMember) -> ClassicGroupMember:
        request = self.request
        if isinstance(member.waits, WaitsForSync):
            self.step.answer(member.waits.reply, SyncAnswer(ErrorCode.rebalance_in_progress))
        updated = member._replace(
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            waits=WaitsForJoin(self.reply),
        )
        self.group.put(updated)
        return updated

    # --- a static member that has lost its id

    def _take_place(self, old: ClassicGroupMember, member_id: str) -> None:
        """KIP-345: it takes the old one's place, without a rebalance where nothing else changes."""
        group, step = self.group, self.step
        leader_before = group.leader or ""
        rebalance.answer_join(step, old, JoinAnswer(ErrorCode.fenced_instance_id, old.member_id))
        if isinstance(old.waits, WaitsForSync):
            step.answer(old.waits.reply, SyncAnswer(ErrorCode.fenced_instance_id))
        member = self._update(group.replace_static(old, member_id).renew_session(step.now.steady_ms))
        if group.state is STABLE and group.chosen_protocol() == group.protocol:
            member = member._replace(waits=None)
            group.put(member)
            self._replace_quietly(member, leader_before)
        else:
            rebalance.rebalance_or_complete(step, group, self.first_delay_ms)

    def _replace_quietly(self, member: ClassicGroupMember, leader_before: str) -> None:
        group, step = self.group, self.step
        assignments = {one.member_id: one.assignment for one in group.members.values()}
        step.record(group, group.generation_of(assignments, group.state_ms))
        answer = group.join_answer(member)
        if self.request.may_skip_assignment:
            # KIP-814: it leads, and must not assign again.
            answer = answer._replace(skip_assignment=member.member_id == group.leader)
        else:
            # An older client that is told it leads assigns; so it is told of the leader it was.
            answer = answer._replace(leader=leader_before, members=())
        step.answer(self.reply, answer)

    def _refuse(self, error: ErrorCode, member_id: str | None = None) -> None:
        self.step.answer(self.reply, JoinAnswer(error, self.request.member_id if member_id is None else member_id))
