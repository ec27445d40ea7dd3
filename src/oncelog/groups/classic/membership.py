"""The members of every group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and session timeouts.

It keeps the contract of `coordination/decision.py`: a decision is made on a copy of the group, which takes the group's place
once the records are replayed. From then on a generation is complete: a group that was Stable is Stable after a restart, and its
members go on with their heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from oncelog.coordination import Decision, Promise
from oncelog.groups.classic import rebalance
from oncelog.groups.classic.decision_builder import DecisionBuilder, MembershipDecision, PendingResponse
from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.joining import Joining
from oncelog.groups.classic.member import (
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncRequest,
    WaitsForSync,
)
from oncelog.groups.classic.metadata import GroupMetadataRecord, GroupMetadataValue
from oncelog.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, is_legal
from oncelog.groups.context import Timestamps
from oncelog.wire import ErrorCode

SIZE_MAX = 2**31 - 1
NEVER_HAD_MEMBERS = GroupMetadataValue()

_NONE = ErrorCode.none


class MembershipLimits(NamedTuple):
    """group.min.session.timeout.ms, group.max.session.timeout.ms, group.initial.rebalance.delay.ms, group.max.size."""

    session_min_ms: int = 6000
    session_max_ms: int = 1_800_000
    first_delay_ms: int = 0
    size_max: int = SIZE_MAX


class ClassicMembership:
    """`recorded` is what the log says; `_groups` what is known beyond that while the broker lives."""

    __slots__ = ("_groups", "_limits", "recorded")

    def __init__(self, limits: MembershipLimits | None = None) -> None:
        self._limits = limits or MembershipLimits()
        self.recorded: dict[str, GroupMetadataValue] = {}
        self._groups: dict[str, ClassicGroup] = {}

    # --- what the log says

    def replay(self, record: GroupMetadataRecord) -> None:
        if record.metadata is not None:
            self.recorded[record.group] = record.metadata
            return
        self.recorded.pop(record.group, None)
        group = self._groups.pop(record.group, None)
        assert group is None or is_legal(group.state, DEAD), (group.name, group.state)

    def replay_offsets_of(self, group: str) -> None:
        """A commit of offsets to a group that does not exist makes a group without members."""
        self.recorded.setdefault(group, NEVER_HAD_MEMBERS)

    def loaded(self, names: Iterable[str], now: Timestamps) -> None:
        """After these groups were replayed: the sessions of all members begin anew, and one that is too large gets rid of some."""
        step = DecisionBuilder(now)
        for name in names:
            metadata = self.recorded.get(name)
            if metadata is None or not metadata.members:
                continue
            group = self._groups[name] = ClassicGroup(name, metadata)
            for member_id in group.members:
                group.renew_session(member_id, now.steady_ms)
            if len(group.members) > self._limits.size_max:
                rebalance.prepare(step, group, self._limits.first_delay_ms)
        decision = step.decision()
        assert decision == Decision((), ()), "nobody has asked anything yet"

    # --- the groups

    def find(self, name: str) -> ClassicGroup | None:
        """The group, for looking at it: a decision works on a copy."""
        group = self._groups.get(name)
        if group is None:
            metadata = self.recorded.get(name)
            return None if metadata is None else ClassicGroup(name, metadata)
        return group

    def names(self) -> frozenset[str]:
        """The names of all groups, with those whose first members are still joining."""
        return frozenset(self.recorded.keys() | self._groups.keys())

    def groups(self) -> Iterator[ClassicGroup]:
        for name, metadata in self.recorded.items():
            yield self._groups.get(name) or ClassicGroup(name, metadata)

    def _remembering(self, group: ClassicGroup) -> Callable[[], None]:
        """Returns the call that replaces the group with the copy on which a decision was made."""
        return partial(self._keep, group)

    def _keep(self, group: ClassicGroup) -> None:
        group.keep()
        self._groups[group.name] = group

    # --- groups that come from the other protocol, or go to it

    def adopt(self, name: str, metadata: GroupMetadataValue, now: Timestamps) -> MembershipDecision:
        """A group of the consumer protocol goes on here, and its members join again."""
        step = DecisionBuilder(now)
        group = ClassicGroup(name, metadata)
        for member_id in group.members:
            group.renew_session(member_id, now.steady_ms)
        step.record(group, metadata)
        rebalance.prepare(step, group, self._limits.first_delay_ms)
        return step.decision(self._remembering(group))

    def hand_over(self, group: ClassicGroup, now: Timestamps) -> MembershipDecision:
        """Drop a group that goes on with the consumer protocol. Its waiting members have to ask again."""
        step = DecisionBuilder(now)
        for member in group.members.values():
            rebalance.answer_join(step, member, JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id))
        rebalance.answer_syncs(step, group.draft(), ErrorCode.rebalance_in_progress)
        return Decision(group.end(now.wall_ms), step.decision().answer)

    def unload(self, name: str, now: Timestamps) -> tuple[PendingResponse, ...]:
        """Forget a group; those of its members who wait for an answer get NOT_COORDINATOR."""
        step = DecisionBuilder(now)
        self.recorded.pop(name, None)
        group = self._groups.pop(name, None)
        for member in () if group is None else group.members.values():
            rebalance.answer_join(step, member, JoinAnswer(ErrorCode.not_coordinator, member.member_id))
        if group is not None:
            rebalance.answer_syncs(step, group, ErrorCode.not_coordinator)
        return step.decision().answer

    @property
    def size_max(self) -> int:
        return self._limits.size_max

    # --- what members ask

    def join_problem(self, request: JoinRequest) -> ErrorCode:
        """The error of a JoinGroup that any group would refuse: invalid_group_id or invalid_session_timeout."""
        if not request.group:
            return ErrorCode.invalid_group_id
        is_allowed = self._limits.session_min_ms <= request.session_timeout_ms <= self._limits.session_max_ms
        return _NONE if is_allowed else ErrorCode.invalid_session_timeout

    def join(
        self, request: JoinRequest, reply: Promise[JoinAnswer], now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> MembershipDecision:
        """JoinGroup. The reply may come much later: when the generation begins.

        Errors: invalid_group_id, invalid_session_timeout, unknown_member_id, member_id_required, fenced_instance_id,
        inconsistent_group_protocol, group_max_size_reached.
        """
        step = DecisionBuilder(now)
        limits = self._limits
        problem = self.join_problem(request)
        if problem is not _NONE:
            step.answer(reply, JoinAnswer(problem, request.member_id))
            return step.decision()
        found = self.find(request.group)
        if found is not None:
            group = found.draft()
        elif request.member_id:
            step.answer(reply, JoinAnswer(ErrorCode.unknown_member_id, request.member_id))
            return step.decision()
        else:
            # The group is recorded before its first generation is complete: after a restart it exists, and is empty.
            created = GroupMetadataValue(state_ms=now.wall_ms)
            group = ClassicGroup(request.group, created)
            step.record(group, created)
        Joining(step, group, request, reply, limits.first_delay_ms, limits.size_max, new_uuid).decide()
        return step.decision(self._remembering(group))

    def sync(self, request: SyncRequest, reply: Promise[SyncAnswer], now: Timestamps) -> MembershipDecision:
        """SyncGroup. Without an assignment from the leader the reply waits for it.

        Errors: invalid_group_id, unknown_member_id, fenced_instance_id, illegal_generation,
        inconsistent_group_protocol, rebalance_in_progress.
        """
        step = DecisionBuilder(now)
        found = self.find(request.group)
        error = _check_sync(found, request)
        if error is not _NONE:
            step.answer(reply, SyncAnswer(error))
            return step.decision()
        assert found is not None
        group = found.draft()
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if group.state is STABLE:
            step.answer(reply, SyncAnswer(_NONE, group.protocol_type, group.protocol, member.assignment))
            return step.decision(self._remembering(group))
        assert group.state is COMPLETING_REBALANCE, group.state
        group.put(member._replace(waits=WaitsForSync(reply)))
        if member.member_id == group.leader:
            step.record(group, group.generation_of(request.assignments, now.wall_ms))
            rebalance.answer_syncs(step, group, _NONE, request.assignments)
        return step.decision(self._remembering(group))

    def heartbeat(
        self, group_name: str, member_id: str, instance_id: str | None, generation: int, now: Timestamps
    ) -> Decision[GroupMetadataRecord, ErrorCode]:
        """Heartbeat. Errors: invalid_group_id, unknown_member_id, fenced_instance_id, illegal_generation,
        rebalance_in_progress (which keeps the session alive, too).
        """
        if not group_name:
            return Decision((), ErrorCode.invalid_group_id)
        group = self.find(group_name)
        if group is None:
            return Decision((), ErrorCode.unknown_member_id)
        error = group.check_member(member_id, instance_id)
        if error is not _NONE:
            return Decision((), error)
        if generation != group.generation:
            return Decision((), ErrorCode.illegal_generation)
        answer = ErrorCode.rebalance_in_progress if group.state is PREPARING_REBALANCE else _NONE
        return Decision((), answer, partial(group.renew_session, member_id, now.steady_ms))

    def has_committed(self, group_name: str, member_id: str, steady_ms: float) -> None:
        """A member has committed offsets: that is as good as a heartbeat, but while the leader assigns."""
        group = self._groups.get(group_name)
        if group is not None and group.state in (STABLE, PREPARING_REBALANCE) and member_id in group.members:
            group.renew_session(member_id, steady_ms)

    def leave(
        self, group_name: str, leaving: Sequence[Leaving], reply: Promise[LeaveAnswer], now: Timestamps
    ) -> MembershipDecision:
        """LeaveGroup, of one or of many (KIP-345). Errors: invalid_group_id; for each: unknown_member_id, fenced_instance_id."""
        step = DecisionBuilder(now)
        found = self.find(group_name)
        if not group_name or found is None:
            error = ErrorCode.unknown_member_id if group_name else ErrorCode.invalid_group_id
            answer = LeaveAnswer((error,) * len(leaving)) if group_name else LeaveAnswer((), error)
            step.answer(reply, answer)
            return step.decision()
        group = found.draft()
        errors = tuple(_leave(step, group, one) for one in leaving)
        step.answer(reply, LeaveAnswer(errors))
        if len(group.members) < len(found.members):
            rebalance.rebalance_or_complete(step, group, self._limits.first_delay_ms)
        else:
            rebalance.complete_if_all_joined(step, group)
        return step.decision(self._remembering(group))

    # --- what time brings

    def next_deadline_ms(self, group_name: str) -> float | None:
        """The steady time before which `expire` has nothing to do for this group."""
        group = self._groups.get(group_name)
        return None if group is None else group.next_deadline_ms()

    def expire(self, group_name: str, now: Timestamps) -> MembershipDecision:
        """Do what is due, sessions first. Call it again while the next deadline has passed."""
        step = DecisionBuilder(now)
        found = self._groups.get(group_name)
        if found is None:
            return step.decision()
        group = found.draft()
        if self._expire_sessions(step, group):
            pass
        elif _is_due(group.join_deadline_ms, now):
            rebalance.join_deadline_passed(step, group, self._limits.first_delay_ms)
        elif _is_due(group.sync_deadline_ms, now):
            group.sync_deadline_ms = None
            self._expire_syncs(step, group)
        group.look_at_deadlines()
        return step.decision(self._remembering(group))

    def _expire_sessions(self, step: DecisionBuilder, group: ClassicGroup) -> bool:
        """Remove members that were silent for too long. Returns True if there were any."""
        now = step.now
        pending = [member_id for member_id, deadline_ms in group.pending_joins.items() if _is_due(deadline_ms, now)]
        due = [member for member in group.members.values() if _is_due(member.session_deadline_ms, now)]
        silent = []
        for member in due:
            if member.waits is not None and not member.is_new:
                # It is we who keep it waiting.
                group.put(member._replace(session_deadline_ms=None))
            else:
                silent.append(member)
        for member_id in pending:
            group.remove(member_id)
        for member in silent:
            rebalance.remove(step, group, member, ErrorCode.unknown_member_id)
        if group.state is PREPARING_REBALANCE:
            if (pending or silent) and group.have_all_joined:
                rebalance.complete(step, group)
        elif silent:
            rebalance.prepare(step, group, self._limits.first_delay_ms)
        return bool(pending or due)

    def _expire_syncs(self, step: DecisionBuilder, group: ClassicGroup) -> None:
        late = [group.members[member_id] for member_id in sorted(group.pending_syncs)]
        if late:
            for member in late:
                rebalance.remove(step, group, member, ErrorCode.unknown_member_id)
            rebalance.prepare(step, group, self._limits.first_delay_ms)


def _check_sync(group: ClassicGroup | None, request: SyncRequest) -> ErrorCode:
    if not request.group:
        return ErrorCode.invalid_group_id
    if group is None or group.state is EMPTY:
        return ErrorCode.unknown_member_id
    error = group.check_member(request.member_id, request.instance_id)
    if error is not _NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.rebalance_in_progress if group.state is PREPARING_REBALANCE else _NONE


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def _leave(step: DecisionBuilder, group: ClassicGroup, leaving: Leaving) -> ErrorCode:
    if not leaving.member_id:
        # An administrator removes the member that has the instance id.
        member = group.static_member(leaving.instance_id)
        if member is None:
            return ErrorCode.unknown_member_id
    elif leaving.member_id in group.pending_joins:
        group.remove(leaving.member_id)
        return _NONE
    else:
        error = group.check_member(leaving.member_id, leaving.instance_id)
        if error is not _NONE:
            return error
        member = group.members[leaving.member_id]
    rebalance.remove(step, group, member, ErrorCode.unknown_member_id)
    return _NONE


def _is_due(deadline_ms: float | None, now: Timestamps) -> bool:
    return deadline_ms is not None and deadline_ms <= now.steady_ms


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: bytes
    assignment: bytes


class ClassicGroupDescription(NamedTuple):
    """`protocol` and what the members said for it are told of a stable group only."""

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


NO_SUCH_GROUP = ClassicGroupDescription(DEAD.value)


def describe(group: ClassicGroup) -> ClassicGroupDescription:
    is_stable = group.state is STABLE
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.subscription(group.protocol) if is_stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    protocol = (group.protocol or "") if is_stable else ""
    return ClassicGroupDescription(group.state.value, group.protocol_type or "", protocol, members)
