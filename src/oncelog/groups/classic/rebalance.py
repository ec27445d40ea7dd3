"""A rebalance: all members join, one of them assigns, and all get their assignments.

Stable ── a member joins, leaves or is silent for too long ──> PreparingRebalance ── all have joined, or the time is up ──>
CompletingRebalance ── the leader's assignment is recorded ──> Stable

These functions change the copy of a group on which a decision is made. State that has to survive the broker is recorded in the
decision.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.groups.classic.decision_builder import DecisionBuilder
from oncelog.groups.classic.group import ClassicGroup, FirstRebalance
from oncelog.groups.classic.member import ClassicGroupMember, JoinAnswer, SyncAnswer, WaitsForJoin, WaitsForSync
from oncelog.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from oncelog.wire import ErrorCode

POSTPONED_MIN_MS = 1000
"""A member chooses its timeout, also one that is over at once. What is postponed must not be due again at the same moment."""


def rebalance_or_complete(step: DecisionBuilder, group: ClassicGroup, first_delay_ms: int) -> None:
    """Somebody came, changed or left: begin a rebalance, or see whether the one under way is complete."""
    if group.state is PREPARING_REBALANCE:
        complete_if_all_joined(step, group)
    else:
        prepare(step, group, first_delay_ms)


def complete_if_all_joined(step: DecisionBuilder, group: ClassicGroup) -> None:
    # The first members of a group wait for the delay to pass, however many they are.
    if group.state is PREPARING_REBALANCE and group.first_rebalance is None and group.have_all_joined:
        complete(step, group)


def prepare(step: DecisionBuilder, group: ClassicGroup, first_delay_ms: int) -> None:
    """Begin a rebalance. Members that wait for their assignment have to join again."""
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            group.put(member._replace(assignment=b""))
        answer_syncs(step, group, ErrorCode.rebalance_in_progress)
    group.pending_syncs = {}
    group.sync_deadline_ms = None
    is_first = group.state is EMPTY
    group.transition(PREPARING_REBALANCE)
    if is_first:
        remaining_ms = max(group.rebalance_timeout_ms - first_delay_ms, 0)
        group.first_rebalance = FirstRebalance(first_delay_ms, remaining_ms)
        group.join_deadline_ms = step.now.steady_ms + first_delay_ms
    elif group.have_all_joined:
        complete(step, group)
    else:
        group.join_deadline_ms = step.now.steady_ms + group.rebalance_timeout_ms


def join_deadline_passed(step: DecisionBuilder, group: ClassicGroup, first_delay_ms: int) -> None:
    """The time to join is up: for good, or for the first members while others keep coming."""
    first = group.first_rebalance
    if first is None or not first.somebody_came or not first.remaining_ms:
        complete(step, group)
        return
    delay_ms = min(first_delay_ms, first.remaining_ms)
    group.first_rebalance = FirstRebalance(delay_ms, max(first.remaining_ms - first.delay_ms, 0))
    group.join_deadline_ms = step.now.steady_ms + delay_ms


def somebody_came(group: ClassicGroup) -> None:
    if group.first_rebalance is not None:
        group.first_rebalance = group.first_rebalance._replace(somebody_came=True)


def complete(step: DecisionBuilder, group: ClassicGroup) -> None:
    """Go on with those who have joined. Static members stay, for their sessions to end (KIP-345)."""
    group.join_deadline_ms = None
    late = [member for member in group.members.values() if not member.has_joined and member.instance_id is None]
    for member in late:
        group.remove(member.member_id)
    if not group.members:
        step.record(group, group.emptied(step.now.wall_ms))
    elif group.elect_joined_leader():
        _begin_generation(step, group)
    else:
        # Nobody is there to lead. The sessions of those who are left end, or one of them comes back.
        group.join_deadline_ms = step.now.steady_ms + max(group.rebalance_timeout_ms, POSTPONED_MIN_MS)


def _begin_generation(step: DecisionBuilder, group: ClassicGroup) -> None:
    group.begin_generation()
    for member in group.members.values():
        answer_join(step, member, group.join_answer(member))
        group.put(member.renew_session(step.now.steady_ms)._replace(waits=None, is_new=False))
    group.sync_deadline_ms = step.now.steady_ms + group.rebalance_timeout_ms


def answer_join(step: DecisionBuilder, member: ClassicGroupMember, answer: JoinAnswer) -> None:
    """Answer the JoinGroup of this member that waits, if one does. Who has been answered waits no more: that is the caller's."""
    if isinstance(member.waits, WaitsForJoin):
        step.answer(member.waits.reply, answer)


def answer_syncs(
    step: DecisionBuilder, group: ClassicGroup, error: ErrorCode, assignments: Mapping[str, bytes] | None = None
) -> None:
    """Answer every SyncGroup that waits. From here on the members have to send heartbeats again."""
    for member in group.members.values():
        if isinstance(member.waits, WaitsForSync):
            if assignments is None:
                answer = SyncAnswer(error)
            else:
                assignment = assignments.get(member.member_id, b"")
                answer = SyncAnswer(error, group.protocol_type, group.protocol, assignment)
            step.answer(member.waits.reply, answer)
            group.put(member.renew_session(step.now.steady_ms)._replace(waits=None))


def remove(step: DecisionBuilder, group: ClassicGroup, member: ClassicGroupMember, error: ErrorCode) -> None:
    """Take a member out; a request of its that waits is answered with the error."""
    answer_join(step, member, JoinAnswer(error))
    if isinstance(member.waits, WaitsForSync):
        step.answer(member.waits.reply, SyncAnswer(error))
    group.remove(member.member_id)
