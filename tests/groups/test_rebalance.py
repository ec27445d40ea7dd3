"""From one generation to the next, and everything that can keep it from coming."""

import pytest

from harness.group_requests import REBALANCE_MS, SESSION_MS
from oncelog.groups import CommitContext, Leaving
from oncelog.groups.classic.state import TRANSITIONS, ClassicState, is_legal
from oncelog.wire import ErrorCode
from tests.groups.group_in_memory import GROUP, GroupInMemory
from tests.groups.offset_log import T0, at

NONE = ErrorCode.none
REBALANCE = ErrorCode.rebalance_in_progress


def keep_alive(group: GroupInMemory, duration_ms: int, *heartbeats: tuple[str, int]) -> None:
    """Let time pass while these send heartbeats."""
    for _ in range(duration_ms // 1000):
        group.advance(1000)
        for member_id, generation in heartbeats:
            group.heartbeat(member_id, generation)


def test_states_have_kafkas_names_and_every_edge_starts_and_ends_at_one() -> None:
    assert [state.value for state in ClassicState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
    assert not any(before is ClassicState.DEAD for before, _ in TRANSITIONS), "nothing comes back"
    assert not is_legal(ClassicState.EMPTY, ClassicState.STABLE)


class TestFirstRebalance:
    """group.initial.rebalance.delay.ms: those who come meanwhile are in the first generation (KIP-134)."""

    def test_without_a_delay_it_is_complete_as_soon_as_time_moves(self) -> None:
        group = GroupInMemory()
        replies = [group.join(), group.join()]
        assert not any(reply.is_resolved for reply in replies)
        group.advance(0)
        assert [reply.value.generation for reply in replies] == [1, 1]

    def test_delay_begins_anew_while_others_come(self) -> None:
        group = GroupInMemory(first_delay_ms=3000)
        first = group.join()
        group.advance(2999)
        second = group.join()
        group.advance(3000)
        assert not first.is_resolved
        group.advance(1)
        assert first.value.generation == second.value.generation == 1

    def test_delay_is_never_longer_than_the_rebalance_timeout(self) -> None:
        group = GroupInMemory(first_delay_ms=3000)
        replies = [group.join(rebalance_ms=7000)]
        for _ in range(6):
            group.advance(1000)
            replies.append(group.join(rebalance_ms=7000))
            assert not replies[0].is_resolved
        group.advance(1000)
        assert {reply.value.generation for reply in replies} == {1}

    def test_group_that_became_empty_has_a_delay_again(self) -> None:
        group = GroupInMemory(first_delay_ms=3000)
        reply = group.join()
        group.advance(3000)
        group.leave(Leaving(reply.value.member_id))
        assert group.state == "Empty"
        again = group.join()
        group.advance(2999)
        assert not again.is_resolved
        group.advance(1)
        assert again.value.generation == 3

    def test_members_that_leave_before_it_is_over_leave_an_empty_group(self) -> None:
        group = GroupInMemory(first_delay_ms=3000)
        pending = group.join(needs_member_id=True).value.member_id
        reply = group.join(pending)
        assert group.leave(Leaving(pending)).errors == (NONE,)
        assert reply.value.error is ErrorCode.unknown_member_id
        group.advance(3000)
        assert (group.state, group.generation) == ("Empty", 1)


class TestMemberThatDoesNotJoinAgain:
    def test_is_removed_when_the_rebalance_timeout_is_over(self) -> None:
        group = GroupInMemory()
        one, two = group.stable(None, None)
        again = group.join(one)
        keep_alive(group, REBALANCE_MS - 1000, (two, 2))
        group.advance(999)
        assert not again.is_resolved
        group.advance(1)
        assert again.value.generation == 3
        assert group.members() == [one]
        assert group.heartbeat(two, 2) is ErrorCode.unknown_member_id

    def test_leader_is_followed_by_one_that_did(self) -> None:
        group = GroupInMemory()
        leader, two, three = group.stable(None, None, None)
        newcomer = group.join()
        again = [group.join(two), group.join(three)]
        keep_alive(group, REBALANCE_MS, (leader, 3))
        assert {reply.value.leader for reply in again} == {two}
        assert newcomer.value.generation == 4

    def test_static_one_stays_until_its_session_ends(self) -> None:
        """KIP-345: it may be on its way back."""
        group = GroupInMemory()
        one, two = group.stable(None, "i")
        again = group.join(one, rebalance_ms=5000)
        group.join(two, instance_id="i", rebalance_ms=5000)
        group.assign([one, two], again.value.generation)
        again = group.join(one, rebalance_ms=5000)
        group.advance(5000)
        assert [member.member_id for member in again.value.members] == [one, two]

    def test_when_it_is_the_longest_rebalance_timeout_that_counts(self) -> None:
        group = GroupInMemory()
        (one,) = group.stable()
        group.join(rebalance_ms=2 * REBALANCE_MS)
        keep_alive(group, 2 * REBALANCE_MS - 1000, (one, 1))
        assert one in group.members()
        group.advance(1000)
        assert one not in group.members()


def test_rebalance_in_which_nobody_joined_goes_on_until_the_sessions_end() -> None:
    group = GroupInMemory()
    one, two = group.stable("i", "j")
    group.join(rebalance_ms=1000)
    group.leave(Leaving(group.members()[-1]))
    assert group.state == "PreparingRebalance"
    group.advance(SESSION_MS)
    assert (group.state, group.members()) == ("Empty", [])
    assert {one, two}.isdisjoint(group.members())


class TestMemberThatDoesNotSync:
    """It has the time of a rebalance to ask for its assignment."""

    def test_follower_is_removed_and_the_others_join_again(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        group.sync(leader, 2, {leader: b"all"})
        late = coming.value.member_id
        keep_alive(group, REBALANCE_MS - 1000, (leader, 2), (late, 2))
        assert group.state == "Stable"
        group.advance(1000)
        assert group.members() == [leader]
        assert group.heartbeat(leader, 2) is REBALANCE

    def test_leader_is_removed_and_those_who_wait_join_again(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        waits = group.sync(coming.value.member_id, 2)
        keep_alive(group, REBALANCE_MS - 1000, (leader, 2))
        assert not waits.is_resolved, "its session is kept while we keep it waiting"
        group.advance(1000)
        assert waits.value.error is REBALANCE
        assert group.join(coming.value.member_id).value.leader == coming.value.member_id

    def test_only_member_leaves_an_empty_group(self) -> None:
        group = GroupInMemory()
        reply = group.join()
        group.advance(0)
        keep_alive(group, REBALANCE_MS, (reply.value.member_id, 1))
        assert (group.state, group.generation) == ("Empty", 2)


class TestMemberThatFallsSilent:
    def test_is_removed_after_its_session_timeout_and_not_before(self) -> None:
        group = GroupInMemory()
        one, two = group.stable(None, None)
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(one, 2) is NONE
        group.advance(0)
        assert group.members() == [one, two]
        group.advance(1)
        assert group.members() == [one]
        assert group.heartbeat(one, 2) is REBALANCE

    def test_is_not_removed_while_it_waits_for_us(self) -> None:
        group = GroupInMemory()
        one, two = group.stable(None, None)
        again = group.join(one)
        keep_alive(group, 3 * SESSION_MS, (two, 2))
        assert not again.is_resolved
        group.join(two)
        assert again.value.error is NONE
        group.advance(SESSION_MS - 1)
        assert group.members() == [one, two]

    def test_last_one_to_be_waited_for_lets_the_others_go_on(self) -> None:
        group = GroupInMemory()
        one, _ = group.stable(None, None)
        again = group.join(one)
        group.advance(SESSION_MS)
        assert again.value.generation == 3

    def test_many_at_once_make_one_rebalance(self) -> None:
        group = GroupInMemory()
        group.stable(*(None,) * 20)
        records = len(group.log)
        group.advance(SESSION_MS)
        assert (group.state, group.generation) == ("Empty", 21)
        assert len(group.log) == records + 1

    def test_commit_is_as_good_as_a_heartbeat(self) -> None:
        group = GroupInMemory()
        (one,) = group.stable()
        group.advance(SESSION_MS - 1)
        commit = [at(T0, 1)]
        decision = group.coordinator.commit_offsets(GROUP, CommitContext(one, 1), commit, group.now)
        assert decision.answer == (NONE,)
        decision.remember()
        group.advance(SESSION_MS - 1)
        assert group.state == "Stable"


def test_leaving_member_is_answered_what_it_waited_for() -> None:
    group = GroupInMemory()
    (leader,) = group.stable()
    coming, _ = group.join(), group.join(leader)
    waits = group.sync(coming.value.member_id, 2)
    group.leave(Leaving(coming.value.member_id))
    assert waits.value.error is ErrorCode.unknown_member_id
    assert group.heartbeat(leader, 2) is REBALANCE


def test_id_that_is_given_back_makes_no_rebalance() -> None:
    group = GroupInMemory()
    group.stable()
    pending = group.join(needs_member_id=True).value.member_id
    assert group.leave(Leaving(pending)).errors == (NONE,)
    assert group.state == "Stable"


class TestGenerationThatCannotBeStored:
    """A group whose metadata is larger than a batch may be."""

    @pytest.mark.parametrize("told", [ErrorCode.unknown_server_error, ErrorCode.kafka_storage_error])
    def test_leader_is_told_and_may_try_again(self, told: ErrorCode) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        waits = group.sync(coming.value.member_id, 2)
        group.refuses = told
        assert group.sync(leader, 2, {leader: b"x"}).value.error is told
        assert not waits.is_resolved
        assert group.state == "CompletingRebalance"
        group.refuses = None
        assert group.sync(leader, 2, {coming.value.member_id: b"y"}).value.error is NONE
        assert waits.value.assignment == b"y"

    def test_leader_that_gives_up_is_replaced(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        waits = group.sync(coming.value.member_id, 2)
        group.refuses = ErrorCode.unknown_server_error
        group.sync(leader, 2, {leader: b"x"})
        group.leave(Leaving(leader))
        assert waits.value.error is REBALANCE

    def test_what_was_stored_before_is_what_a_restart_finds(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        group.join(leader)
        group.refuses = ErrorCode.unknown_server_error
        group.sync(leader, 2, {leader: b"x"})
        group.restart()
        assert group.heartbeat(leader, 1) is NONE
