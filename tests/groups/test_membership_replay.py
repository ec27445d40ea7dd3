"""The promise of the membership: whatever members do, a new process finds the generation that was last agreed on."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harness.group_requests import subscription
from oncelog.coordination import Promise
from oncelog.groups import JoinAnswer, Leaving, SyncAnswer
from oncelog.groups.classic import ClassicGroup
from oncelog.groups.classic.state import EMPTY, PREPARING_REBALANCE, STABLE
from oncelog.wire import ErrorCode
from tests.groups.group_in_memory import GROUP, GroupInMemory

INSTANCES = st.sampled_from((None, None, "i", "j"))
PROTOCOLS = st.sampled_from(
    (
        (("range", subscription("t")),),
        (("range", subscription("t", "u")), ("roundrobin", b"")),
        (("roundrobin", b"what it is"), ("range", subscription("t"))),
    )
)
MEMBERS = st.integers(0, 30)
REFUSED = (ErrorCode.none, ErrorCode.unknown_server_error)


class Members(RuleBasedStateMachine):
    """Members that do what they like, in time and out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.group = GroupInMemory(first_delay_ms=0, size_max=6)
        self.waiting: list[Promise[JoinAnswer] | Promise[SyncAnswer]] = []
        self.known: list[str] = [""]
        self.generations: list[int] = [0]

    def who(self, number: int) -> str:
        return self.known[-1 - number % len(self.known)]

    @rule(instance_id=INSTANCES, protocols=PROTOCOLS, needs_member_id=st.booleans())
    def join(self, instance_id: str | None, protocols: tuple[tuple[str, bytes], ...], needs_member_id: bool) -> None:
        reply = self.group.join(instance_id=instance_id, protocols=protocols, needs_member_id=needs_member_id)
        self.waiting.append(reply)
        self.known += [member_id for member_id in self.group.members() if member_id not in self.known]
        if reply.is_resolved and reply.value.member_id not in self.known:
            self.known.append(reply.value.member_id)

    @rule(number=MEMBERS, protocols=PROTOCOLS)
    def join_again(self, number: int, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self.waiting.append(self.group.join(self.who(number), protocols=protocols))

    @rule()
    def everybody_joins_again(self) -> None:
        for member_id in self.group.members():
            self.waiting.append(self.group.join(member_id))

    @rule(number=MEMBERS)
    def sync(self, number: int) -> None:
        group = self.group.coordinator.membership.find(GROUP)
        if group is not None:
            assignments = {member_id: f"{group.generation} {member_id}".encode() for member_id in group.members}
            self.waiting.append(self.group.sync(self.who(number), group.generation, assignments))

    @rule()
    def leader_syncs(self) -> None:
        group = self.group.coordinator.membership.find(GROUP)
        if group is not None and group.leader is not None:
            assignments = {member_id: f"{group.generation} {member_id}".encode() for member_id in group.members}
            self.waiting.append(self.group.sync(group.leader, group.generation, assignments))

    @rule(number=MEMBERS)
    def leave(self, number: int) -> None:
        self.group.leave(Leaving(self.who(number)), Leaving("", "j"))

    @rule(duration_ms=st.sampled_from((0, 1, 5_000, 10_000, 60_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.group.advance(duration_ms)

    @rule()
    def delete(self) -> None:
        decision = self.group.coordinator.delete_group(GROUP, self.group.now.wall_ms)
        self.group.write(*decision.records)
        if decision.answer is ErrorCode.none:
            self.generations = [0]

    @rule()
    def restart(self) -> None:
        """Every connection goes with the broker."""
        self.group.restart()
        self.waiting.clear()
        self.generations = self.generations[:1]

    @rule(error=st.sampled_from(REFUSED))
    def log_refuses_what_is_large(self, error: ErrorCode) -> None:
        group = self.group.coordinator.membership.find(GROUP)
        # Only a group with members is ever too large for a batch.
        if group is not None and group.state not in (EMPTY, PREPARING_REBALANCE) and group.leader is not None:
            self.group.refuses = None if error is ErrorCode.none else error
            self.waiting.append(self.group.sync(group.leader, group.generation, {}))
            self.group.refuses = None

    @invariant()
    def the_log_is_the_state(self) -> None:
        assert self.group.reread().membership.recorded == self.group.coordinator.membership.recorded

    @invariant()
    def group_that_has_settled_is_what_a_restart_would_make_of_it(self) -> None:
        membership = self.group.coordinator.membership
        group = membership.find(GROUP)
        if group is None:
            assert GROUP not in membership.recorded
            return
        self.generations.append(group.generation)
        assert self.generations[-2] <= group.generation, "no generation comes twice while the broker lives"
        reread = ClassicGroup(GROUP, membership.recorded[GROUP])
        if group.state in (STABLE, EMPTY):
            assert (reread.state, reread.generation) == (group.state, group.generation)
            assert (reread.leader, reread.protocol) == (group.leader, group.protocol)
            assert facts(reread) == facts(group)

    @invariant()
    def whoever_waits_is_waited_for(self) -> None:
        """No request waits in a group in which nothing would ever answer it."""
        group = self.group.coordinator.membership.find(GROUP)
        if group is not None and any(member.waits is not None for member in group.members.values()):
            assert group.state not in (STABLE, EMPTY)
            assert group.join_deadline_ms is not None or group.sync_deadline_ms is not None


def facts(group: ClassicGroup) -> dict[str, tuple[str | None, bytes, bytes]]:
    return {
        member.member_id: (member.instance_id, member.subscription(group.protocol), member.assignment)
        for member in group.members.values()
    }


Members.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestMembersInAnyOrder = Members.TestCase
