"""Who speaks of another generation than the group's is told so, and changes nothing."""

from __future__ import annotations

import pytest

from harness.group_requests import SESSION_MS
from oncelog.groups import CommitContext
from oncelog.wire import ErrorCode
from tests.groups.consumers_in_memory import ConsumersInMemory
from tests.groups.group_in_memory import GROUP, GroupInMemory
from tests.groups.offset_log import T0, at

OTHER_GENERATIONS = pytest.mark.parametrize("difference", [-1, 1])


def second_generation() -> tuple[GroupInMemory, str]:
    group = GroupInMemory()
    (leader,) = group.stable()
    group.assign([leader], group.join(leader).value.generation)
    assert group.generation == 2
    return group, leader


@OTHER_GENERATIONS
def test_heartbeat_of_another_generation_is_refused_and_keeps_no_session_alive(difference: int) -> None:
    """KIP-62: a member that missed a rebalance has to join again, and must not go on with what it was assigned before."""
    group, leader = second_generation()
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(leader, 2 + difference) is ErrorCode.illegal_generation
    group.advance(1)
    assert group.members() == []


@OTHER_GENERATIONS
def test_sync_of_another_generation_gets_no_assignment(difference: int) -> None:
    group, leader = second_generation()
    answer = group.sync(leader, 2 + difference).value
    assert (answer.error, answer.assignment) == (ErrorCode.illegal_generation, b"")


@OTHER_GENERATIONS
def test_leader_of_another_generation_assigns_nothing(difference: int) -> None:
    group, leader = second_generation()
    assert group.join(leader).value.generation == 3
    assert group.sync(leader, 3 + difference, {leader: b"late"}).value.error is ErrorCode.illegal_generation
    assert group.state == "CompletingRebalance"


@pytest.mark.parametrize(("state", "is_alive"), [("Stable", True), ("CompletingRebalance", False)])
def test_commit_is_as_good_as_a_heartbeat_but_while_the_leader_assigns(state: str, *, is_alive: bool) -> None:
    group, leader = second_generation()
    generation = 2
    if state == "CompletingRebalance":
        generation = group.join(leader).value.generation
    assert group.state == state
    group.advance(SESSION_MS - 1)
    commit(group, leader, generation)
    group.advance(1)
    assert (leader in group.members()) is is_alive


def commit(group: GroupInMemory, member_id: str, generation: int) -> None:
    """As OffsetCommit does it."""
    coordinator = group.coordinator
    offsets = [at(T0, 1)]
    decision = coordinator.commit_offsets(GROUP, CommitContext(member_id, generation), offsets, group.now)
    group.write(*decision.records)
    decision.remember()


def test_offsets_in_the_log_leave_a_group_the_generation_that_is_there_before_them() -> None:
    group, leader = second_generation()
    commit(group, leader, 2)
    group.restart()
    assert (group.state, group.generation, group.members()) == ("Stable", 2, [leader])


def test_who_waits_for_a_generation_hears_that_its_instance_has_another_member() -> None:
    """KIP-345: the newest that comes with an instance id is the one that has it."""
    group = GroupInMemory()
    leader, _ = group.stable("i", "j")
    waiting = group.join(leader, instance_id="i")
    assert not waiting.is_resolved
    group.join(instance_id="i")
    assert waiting.value.error is ErrorCode.fenced_instance_id


def test_stale_epoch_in_a_transaction_is_a_generation_that_is_over() -> None:
    """TxnOffsetCommit has no error for members of consumer groups (KIP-848): clients know ILLEGAL_GENERATION there."""
    consumers = ConsumersInMemory()
    consumers.topics.make("t", 1)
    epoch = consumers.join("member", "t").member_epoch
    stale = CommitContext("member", epoch - 1)
    offsets = [at(T0, 1)]
    coordinator = consumers.coordinator
    in_transaction = coordinator.transactional_commit(GROUP, stale, offsets, consumers.now.wall_ms)
    assert in_transaction.answer == (ErrorCode.illegal_generation,)
    assert coordinator.commit_offsets(GROUP, stale, offsets, consumers.now).answer != (ErrorCode.none,)
