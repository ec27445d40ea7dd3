"""Who may come into a group, and what that does to those who are in it."""

import pytest

from harness.group_requests import SESSION_MS, subscription
from oncelog.groups import Leaving
from oncelog.wire import ErrorCode
from tests.groups.group_in_memory import GroupInMemory

NONE = ErrorCode.none
OTHER = (("range", subscription("u")),)


def test_id_that_nobody_comes_back_with_is_forgotten_after_the_session_timeout() -> None:
    """KIP-394: the id is kept as long as a session of the member would last."""
    group = GroupInMemory()
    answer = group.join(needs_member_id=True).value
    assert answer.error is ErrorCode.member_id_required
    group.advance(SESSION_MS - 1)
    assert not group.join(answer.member_id).is_resolved
    other = group.join(needs_member_id=True).value
    group.advance(SESSION_MS)
    assert group.join(other.member_id).value.error is ErrorCode.unknown_member_id


def test_rebalance_waits_for_whoever_has_an_id_and_is_not_back_yet() -> None:
    group = GroupInMemory()
    (leader,) = group.stable()
    pending = group.join(needs_member_id=True).value.member_id
    again = group.join(leader)
    assert not again.is_resolved
    coming = group.join(pending)
    assert again.value.generation == coming.value.generation == 2


def test_rebalance_goes_on_when_the_id_that_is_not_back_is_forgotten() -> None:
    group = GroupInMemory()
    (leader,) = group.stable()
    group.join(needs_member_id=True)
    again = group.join(leader)
    group.advance(SESSION_MS)
    assert again.value.generation == 2


def test_id_given_out_belongs_to_no_static_member() -> None:
    group = GroupInMemory()
    pending = group.join(needs_member_id=True).value.member_id
    assert group.join(pending, instance_id="i").value.error is ErrorCode.unknown_member_id


@pytest.mark.parametrize(("client_id", "instance_id"), [("x" * 32_767, None), ("c", "ï" * 16_000)])
def test_id_of_a_member_with_a_long_name_fits_into_a_string(client_id: str, instance_id: str | None) -> None:
    group = GroupInMemory()
    reply = group.join(client_id=client_id, instance_id=instance_id)
    group.advance(0)
    assert len(reply.value.member_id.encode()) < 1000


def test_new_member_that_is_not_heard_of_for_five_minutes_is_let_go() -> None:
    """It has no id to send heartbeats with, and nobody sees that its connection is gone."""
    group = GroupInMemory()
    (leader,) = group.stable()
    coming = group.join(rebalance_ms=1_000_000)
    for _ in range(60):
        group.advance(4_999)
        assert group.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
    assert not coming.is_resolved
    group.advance(4_999)
    assert (coming.value.error, coming.value.member_id) == (ErrorCode.unknown_member_id, "")
    assert group.members() == [leader]


class TestGroupThatIsFull:
    """group.max.size: GROUP_MAX_SIZE_REACHED (KIP-389)."""

    def test_newcomer_is_turned_away(self) -> None:
        group = GroupInMemory(size_max=2)
        ids = group.stable(None, None)
        assert group.join().value.error is ErrorCode.group_max_size_reached
        assert group.state == "Stable"
        assert group.join(ids[1]).value.error is NONE

    def test_while_it_rebalances_those_count_who_have_joined(self) -> None:
        group = GroupInMemory(size_max=2)
        one, two = group.stable(None, None)
        again = group.join(one)
        newcomer = group.join()
        assert group.join(two).value.error is ErrorCode.group_max_size_reached
        assert again.value.generation == newcomer.value.generation == 3
        assert group.members() == [one, newcomer.value.member_id]

    def test_member_that_waits_already_may_ask_again(self) -> None:
        group = GroupInMemory(size_max=1)
        (one,) = group.stable()
        group.advance(0)
        group.join(one)
        assert group.join(one).value.error is NONE

    def test_empty_group_takes_in_whoever_comes_first(self) -> None:
        group = GroupInMemory(size_max=1)
        group.leave(Leaving(group.stable()[0]))
        assert not group.join().is_resolved

    def test_after_a_start_with_a_smaller_limit_the_last_to_come_back_are_left_out(self) -> None:
        group = GroupInMemory()
        one, two, three = group.stable(None, None, None)
        smaller = GroupInMemory(size_max=2)
        smaller.log, smaller.now = group.log, group.now
        smaller.restart()
        assert smaller.state == "PreparingRebalance"
        assert smaller.heartbeat(one, 3) is ErrorCode.rebalance_in_progress
        again = [smaller.join(two), smaller.join(three)]
        assert smaller.join(one).value.error is ErrorCode.group_max_size_reached
        assert [reply.value.leader for reply in again] == [two, two]


class TestMemberThatJoinsAgain:
    def test_with_the_same_it_is_answered_from_the_generation(self) -> None:
        group = GroupInMemory()
        leader, follower = group.stable(None, None)
        answer = group.join(follower).value
        assert (answer.generation, answer.leader, answer.members) == (2, leader, ())
        assert group.state == "Stable"

    @pytest.mark.parametrize("changes", [{"protocols": OTHER}, {"protocols": (*OTHER, ("b", b""))}])
    def test_with_something_new_it_begins_a_rebalance(self, changes: dict[str, tuple[tuple[str, bytes], ...]]) -> None:
        group = GroupInMemory()
        _, follower = group.stable(None, None)
        assert not group.join(follower, **changes).is_resolved
        assert group.state == "PreparingRebalance"

    def test_as_the_leader_it_begins_a_rebalance(self) -> None:
        group = GroupInMemory()
        leader, _ = group.stable(None, None)
        assert not group.join(leader).is_resolved
        assert group.state == "PreparingRebalance"

    def test_while_the_leader_assigns_the_leader_is_told_again_who_is_there(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, again = group.join(), group.join(leader)
        answer = group.join(leader).value
        assert answer == again.value
        assert [member.member_id for member in answer.members] == [leader, coming.value.member_id]

    def test_while_the_leader_assigns_something_new_begins_another_rebalance(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        waits = group.sync(coming.value.member_id, 2)
        group.join(leader, protocols=OTHER)
        assert waits.value.error is ErrorCode.rebalance_in_progress
        assert group.state == "PreparingRebalance"

    def test_instead_of_its_sync_the_sync_is_called_off(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        coming, _ = group.join(), group.join(leader)
        waits = group.sync(coming.value.member_id, 2)
        group.join(coming.value.member_id, protocols=OTHER)
        assert waits.value.error is ErrorCode.rebalance_in_progress

    def test_new_timeouts_count_from_then_on(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        assert group.join(leader, session_ms=20_000).value.generation == 2
        group.assign([leader], 2)
        group.advance(19_999)
        assert group.state == "Stable"
        group.advance(1)
        assert group.state == "Empty"


class TestStaticMemberThatHasLostItsId:
    """KIP-345: it replaces the member that had its instance id."""

    def test_takes_over_assignment_and_timeouts_of_its_own(self) -> None:
        group = GroupInMemory()
        leader, old = group.stable(None, "i")
        answer = group.join(instance_id="i", session_ms=20_000).value
        assert (answer.error, answer.generation) == (NONE, 2)
        assert group.sync(answer.member_id, 2).value.assignment == old.encode()
        assert group.heartbeat(old, 2, "i") is ErrorCode.fenced_instance_id
        group.advance(9_999)
        assert group.heartbeat(leader, 2) is NONE

    def test_is_recorded_under_its_new_id(self) -> None:
        group = GroupInMemory()
        _, old = group.stable(None, "i")
        new = group.join(instance_id="i").value.member_id
        group.restart()
        assert group.heartbeat(new, 2, "i") is NONE
        assert group.heartbeat(old, 2) is ErrorCode.unknown_member_id

    def test_makes_a_rebalance_when_another_protocol_would_be_chosen(self) -> None:
        group = GroupInMemory()
        one = group.join(instance_id="i", protocols=(("a", b""), ("b", b"")))
        group.advance(0)
        group.assign([one.value.member_id], 1)
        again = group.join(instance_id="i", protocols=(("b", b""), ("a", b"")))
        assert (again.value.generation, again.value.protocol) == (2, "b")

    def test_that_has_yet_to_ask_for_its_assignment_still_has_to(self) -> None:
        group = GroupInMemory()
        (leader,) = group.stable()
        group.join(instance_id="i")
        group.join(leader)
        group.sync(leader, 2, {leader: b"all"})
        new = group.join(instance_id="i").value.member_id
        group.advance(SESSION_MS - 1)
        group.heartbeat(new, 2, "i")
        group.heartbeat(leader, 2)
        for _ in range(6):
            group.advance(SESSION_MS - 1)
            group.heartbeat(new, 2, "i")
            group.heartbeat(leader, 2)
        assert group.members() == [leader], "the time to ask is the rebalance timeout"

    def test_can_be_taken_out_by_its_instance_id(self) -> None:
        group = GroupInMemory()
        leader, _ = group.stable(None, "i")
        assert group.leave(Leaving("", "i")).errors == (NONE,)
        assert group.members() == [leader]
        assert group.state == "PreparingRebalance"


def test_refused_join_of_a_new_group_leaves_an_empty_one() -> None:
    """As Kafka does; the next clean-up removes it."""
    group = GroupInMemory()
    assert group.join(protocols=()).value.error is ErrorCode.inconsistent_group_protocol
    assert group.state == "Empty"
    assert len(group.log) == 1
