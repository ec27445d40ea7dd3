"""ConsumerGroupHeartbeat: requests that are wrong whatever the group is, and what a member has between two assignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from oncelog.coordination.names import matching
from oncelog.groups import CommitContext, ConsumerLimits, encode
from oncelog.groups.consumer.member import Progress
from oncelog.groups.consumer.records import CurrentAssignmentRecord
from oncelog.groups.consumer.state import MemberState
from oncelog.wire import ErrorCode
from tests.groups.consumers_in_memory import Consumer, ConsumersInMemory
from tests.groups.group_in_memory import GROUP
from tests.groups.offset_log import at

JOINS: dict[str, Any] = {"topics": ("t",), "owned": frozenset(), "rebalance_timeout_ms": 1000}
INTERVAL_MS = 10_000


@pytest.mark.parametrize(
    "changed",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"topics": None},
        {"instance_id": ""},
        {"instance_id": " "},
        {"rack": ""},
    ],
)
def test_who_joins_says_all_that_a_group_has_to_know(changed: dict[str, Any]) -> None:
    """GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    assert groups.beat("a", 0, **(JOINS | changed)).error is ErrorCode.invalid_request
    assert groups.group is None
    assert groups.beat("a", 0, **JOINS).error is ErrorCode.none


@pytest.mark.parametrize(
    ("epoch", "instance_id", "error"),
    [
        (-2, None, ErrorCode.invalid_request),
        (-2, "i", ErrorCode.none),
        (-3, "i", ErrorCode.invalid_request),
        (-3, None, ErrorCode.invalid_request),
        (-1, "i", ErrorCode.none),
    ],
)
def test_epoch_minus_two_is_of_a_static_member_that_will_be_back_and_none_is_below(
    epoch: int, instance_id: str | None, error: ErrorCode
) -> None:
    """KIP-848: LeaveGroupStaticMemberEpoch is -2."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    groups.join("a", "t", instance_id="i")
    assert groups.beat("a", epoch, instance_id=instance_id).error is error


def test_assignor_that_is_not_configured_is_refused() -> None:
    groups = ConsumersInMemory()
    assert groups.join("a", "t", assignor="sticky").error is ErrorCode.unsupported_assignor
    assert groups.join("a", "t", assignor="range").error is ErrorCode.none


def test_pattern_that_is_none_is_refused_whoever_else_has_a_good_one() -> None:
    """ConsumerGroupHeartbeat v1: INVALID_REGULAR_EXPRESSION."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    assert groups.join("a", topics=None, regex="t(").error is ErrorCode.invalid_regular_expression
    assert groups.join("a", topics=None, regex="t.*").error is ErrorCode.none
    assert groups.join("b", topics=None, regex="t(").error is ErrorCode.invalid_regular_expression
    assert groups.join("b", topics=None, regex="t.*").error is ErrorCode.none


def test_patterns_are_compared_with_each_topic_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may have as many patterns as members, and a broker ten thousand topics: nobody else is served meanwhile."""
    compared: list[int] = []

    def counted(regex: str, names: Iterable[str]) -> frozenset[str]:
        listed = list(names)
        compared.append(len(listed))
        return matching(regex, listed)

    monkeypatch.setattr("oncelog.groups.consumer.group_change.matching", counted)
    groups = ConsumersInMemory()
    for number in range(100):
        groups.topics.make(f"t{number}", 1)
    patterns = [f"(t.*){{1,{count}}}" for count in range(1, 6)]
    for number, regex in enumerate(patterns):
        groups.join(f"m{number}", topics=None, regex=regex)
    assert set(compared) == {100}
    compared.clear()
    groups.topics.make("t-new", 1)
    groups.topics.make("other", 1)
    groups.topics.delete("t5")
    groups.advance(INTERVAL_MS)
    groups.join("m0", topics=None, regex=patterns[0])
    assert set(compared) == {2}
    assert groups.group is not None
    expected = {f"t{number}" for number in range(100) if number != 5} | {"t-new"}
    assert {regex: set(found.topics) for regex, found in groups.group.regexes.items()} == dict.fromkeys(
        patterns, expected
    )


def test_topic_that_comes_and_goes_between_two_looks_matches_no_more() -> None:
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    groups.join("a", topics=None, regex="t.*")
    groups.topics.make("t-short", 1)
    groups.join("b", topics=None, regex="t(-.*)?")
    groups.topics.delete("t-short")
    groups.topics.make("t-long", 1)
    groups.advance(INTERVAL_MS)
    groups.join("a", topics=None, regex="t.*")
    assert groups.group is not None
    assert {tuple(sorted(found.topics)) for found in groups.group.regexes.values()} == {("t", "t-long")}


def test_topic_that_is_away_when_a_pattern_comes_matches_it_once_it_is_back() -> None:
    """The other patterns have seen its name before, and this one has not."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    groups.topics.make("t-back", 1)
    groups.join("a", topics=None, regex="t.*")
    groups.advance(INTERVAL_MS)
    groups.join("a", topics=None, regex="t.*")
    groups.topics.delete("t-back")
    groups.join("b", topics=None, regex="t(-.*)?")
    groups.topics.make("t-back", 1)
    groups.advance(INTERVAL_MS)
    groups.join("a", topics=None, regex="t.*")
    assert groups.group is not None
    assert {tuple(sorted(found.topics)) for found in groups.group.regexes.values()} == {("t", "t-back")}


def test_full_group_takes_nobody_new_and_keeps_those_it_has() -> None:
    """group.consumer.max.size: GROUP_MAX_SIZE_REACHED for one more."""
    groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=0, size_max=2))
    groups.topics.make("t", 2)
    first, second = Consumer(groups, "a", ("t",)), Consumer(groups, "b", ("t",))
    for member in (first, second):
        member.turn()
    assert groups.join("c", "t").error is ErrorCode.group_max_size_reached
    assert first.beat().error is ErrorCode.none
    assert groups.join("b", "t").error is ErrorCode.none
    assert groups.group is not None
    assert set(groups.group.members) == {"a", "b"}
    second.leave(-1)
    assert groups.join("c", "t").error is ErrorCode.none


def test_state_that_is_not_known_keeps_kafkas_number_for_it_in_the_log() -> None:
    """MemberState.UNKNOWN is 127."""
    record = encode(CurrentAssignmentRecord(GROUP, "a", Progress(7, 6, MemberState.UNKNOWN), 5))
    assert record.value is not None
    assert record.value[:11] == bytes.fromhex("0000 00000007 00000006 7f")


def test_topic_that_a_member_gives_up_is_taken_from_it_before_the_next_assignment() -> None:
    """The next one waits for group.consumer.assignment.interval.ms."""
    groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=INTERVAL_MS))
    kept, left = groups.topics.make("kept", 2), groups.topics.make("left", 2)
    member = Consumer(groups, "a", ("kept", "left"))
    member.turn()
    assert {topic_id for topic_id, _ in member.owned} == {kept, left}
    answer = member.beat(topics=("kept",))
    assert answer.assignment is not None
    assert {topic_id for topic_id, _ in answer.assignment} == {kept}


def test_member_that_changes_nothing_keeps_what_it_has_between_two_assignments() -> None:
    groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=INTERVAL_MS))
    topic_id = groups.topics.make("kept", 2)
    groups.topics.make("other", 1)
    member = Consumer(groups, "a", ("kept",))
    member.turn()
    member.beat(topics=("kept", "other"))
    member.reconcile()
    assert member.owned == {(topic_id, 0), (topic_id, 1)}


def test_epoch_that_is_over_may_commit_what_the_member_has_had_since_then() -> None:
    """OffsetCommit v9, KIP-848: a commit that was on its way when the epoch moved is not lost."""
    groups = ConsumersInMemory()
    topic_id = groups.topics.make("t", 4)
    first, second = Consumer(groups, "a", ("t",)), Consumer(groups, "b", ("t",))
    first.turn()
    epoch = first.epoch
    second.turn()
    for _ in range(3):
        first.turn()
        second.turn()
    assert first.epoch > epoch
    kept = [number for _, number in first.owned]
    taken = [number for _, number in second.owned]
    assert len(kept) == len(taken) == 2

    def commit(context: CommitContext, partitions: list[int]) -> set[ErrorCode]:
        offsets = [at(("t", number), 1, topic_id=topic_id) for number in partitions]
        return set(groups.coordinator.commit_offsets(GROUP, context, offsets, groups.now).answer)

    assert commit(CommitContext("a", epoch), kept) == {ErrorCode.none}
    assert commit(CommitContext("a", epoch), [*kept, taken[0]]) == {ErrorCode.stale_member_epoch}
    assert commit(CommitContext("a", epoch - 1), kept) == {ErrorCode.stale_member_epoch}
    assert commit(CommitContext("a", first.epoch + 1), kept) == {ErrorCode.stale_member_epoch}
    assert commit(CommitContext("b", epoch), taken) == {ErrorCode.stale_member_epoch}


def test_static_member_that_comes_back_under_another_id_has_what_it_had_at_once() -> None:
    """KIP-848: it goes on with the partitions of the one that left for a while, without another assignment."""
    groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=INTERVAL_MS))
    topic_id = groups.topics.make("t", 2)
    before = Consumer(groups, "before", ("t",), instance_id="i")
    before.turn()
    assert before.owned == {(topic_id, 0), (topic_id, 1)}
    before.leave(-2)
    after = Consumer(groups, "after", ("t",), instance_id="i")
    answer = after.beat()
    assert (answer.error, answer.assignment) == (ErrorCode.none, before.owned)
    assert groups.group is not None
    assert set(groups.group.members) == {"after"}
    groups.restart()
    assert groups.group is not None
    assert groups.group.target == {"after": before.owned}
