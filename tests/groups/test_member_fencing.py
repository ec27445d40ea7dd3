"""Who may commit in whose name: the errors of OffsetCommit and TxnOffsetCommit (KIP-447), state by state."""

from __future__ import annotations

import pytest

from oncelog.groups import CommitContext
from oncelog.wire import ErrorCode
from tests.groups.group_in_memory import GROUP, GroupInMemory

NONE = ErrorCode.none
UNKNOWN, GENERATION = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
REBALANCE, FENCED = ErrorCode.rebalance_in_progress, ErrorCode.fenced_instance_id
ANONYMOUS = CommitContext()
CURRENT, PAST, NOBODY = "current", "past", "nobody"


def in_state(state: str) -> tuple[GroupInMemory, dict[str, CommitContext]]:
    """A group in this state, and who may say to be one of it."""
    group = GroupInMemory()
    (leader,) = group.stable("i")
    generation = 1
    if state != "Stable":
        group.join()
    if state == "CompletingRebalance":
        group.join(leader, instance_id="i")
        generation = 2
    assert group.state == state
    return group, {
        CURRENT: CommitContext(leader, generation, "i"),
        PAST: CommitContext(leader, generation - 1),
        NOBODY: CommitContext("nobody", generation),
        "without a generation": CommitContext(leader),
        "of another instance": CommitContext(leader, generation, "j"),
        "replaced": CommitContext("i-old", generation, "i"),
        "anonymous": ANONYMOUS,
    }


EXPECTED = {
    CURRENT: NONE,
    PAST: GENERATION,
    NOBODY: UNKNOWN,
    "without a generation": GENERATION,
    "of another instance": UNKNOWN,
    "replaced": FENCED,
    "anonymous": UNKNOWN,
}


@pytest.mark.parametrize("who", EXPECTED)
@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_commit_in_every_state(state: str, who: str) -> None:
    """While the leader assigns, nobody who is in the generation has read anything of it yet."""
    group, facts = in_state(state)
    expected = EXPECTED[who]
    if state == "CompletingRebalance" and expected is NONE:
        expected = REBALANCE
    assert group.coordinator.check_commit(GROUP, facts[who]) is expected


@pytest.mark.parametrize("who", EXPECTED)
@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_commit_in_a_transaction_in_every_state(state: str, who: str) -> None:
    """KIP-447: the state of the group is no matter, and whoever does not say who it is is trusted, as before."""
    group, facts = in_state(state)
    expected = NONE if who == "anonymous" else EXPECTED[who]
    assert group.coordinator.check_commit(GROUP, facts[who], in_transaction=True) is expected


@pytest.mark.parametrize("in_transaction", [False, True])
def test_group_that_has_become_empty_takes_offsets_of_anybody_but_not_of_a_generation(in_transaction: bool) -> None:
    group, facts = in_state("Stable")
    group.advance(60_000)
    assert group.state == "Empty"
    for member, expected in ((ANONYMOUS, NONE), (CommitContext("m"), NONE), (facts[CURRENT], UNKNOWN)):
        assert group.coordinator.check_commit(GROUP, member, in_transaction=in_transaction) is expected
