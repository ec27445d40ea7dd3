"""A group with members goes from one protocol to the other (KIP-848, online migration): its members keep what they have."""

from __future__ import annotations

import pytest

from harness.group_requests import REBALANCE_MS, SESSION_MS
from oncelog.groups import ConsumerLimits, GroupCoordinator, MembershipLimits
from oncelog.groups.context import SIZE_MAX
from oncelog.wire import ErrorCode
from tests.groups.consumers_in_memory import Consumer, ConsumersInMemory
from tests.groups.group_in_memory import GROUP


def mixed(size_max: int = SIZE_MAX) -> tuple[ConsumersInMemory, Consumer, str]:
    """One member of each protocol, each with one of two partitions. `size_max` is group.max.size, of classic groups."""
    groups = ConsumersInMemory()
    limits, consumer_limits = MembershipLimits(size_max=size_max), ConsumerLimits(assignment_interval_ms=0)
    groups.coordinator = GroupCoordinator(limits=limits, consumer_limits=consumer_limits, topics=groups.topics)
    groups.topics.make("t", 2)
    new = Consumer(groups, "new", ("t",))
    new.turn()
    joined = groups.classic_join("", None, "t").value
    for _ in range(3):
        new.turn()
    again = groups.classic_join(joined.member_id, None, "t").value
    assert groups.classic_sync(again.member_id, again.generation).value.error is ErrorCode.none
    return groups, new, joined.member_id


def listed(groups: ConsumersInMemory) -> list[tuple[str, str]]:
    return [(group.state, group.type) for group in groups.coordinator.list_groups([GROUP])]


def test_group_whose_last_member_of_the_consumer_protocol_leaves_goes_on_as_a_classic_one() -> None:
    groups, new, old = mixed()
    assert groups.group is not None
    epoch = groups.group.epoch
    new.leave(-1)
    assert groups.group is None
    described = groups.coordinator.describe(GROUP)
    assert listed(groups) == [("PreparingRebalance", "classic")]
    assert described.protocol_type == "consumer"
    assert [member.member_id for member in described.members] == [old]
    found = groups.coordinator.membership.find(GROUP)
    assert found is not None
    assert (found.protocol, found.generation) == ("range", epoch)


def test_member_that_stays_joins_the_classic_group_with_its_own_timeouts() -> None:
    groups, new, old = mixed()
    new.leave(-1)
    answer = groups.classic_join(old, None, "t")
    groups.advance(0)
    assert answer.value.error is ErrorCode.none
    assert answer.value.leader == old
    found = groups.coordinator.membership.find(GROUP)
    assert found is not None
    member = found.members[old]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)


def test_member_that_is_silent_after_it_loses_its_session() -> None:
    groups, new, old = mixed()
    new.leave(-1)
    groups.advance(SESSION_MS - 1)
    assert [member.member_id for member in groups.coordinator.describe(GROUP).members] == [old]
    groups.advance(1)
    assert groups.coordinator.describe(GROUP).members == ()


@pytest.mark.parametrize(("size_max", "group_type"), [(1, "consumer"), (2, "classic")])
def test_group_that_would_be_too_large_for_a_classic_one_stays_a_consumer_group(size_max: int, group_type: str) -> None:
    groups, new, _ = mixed(size_max)
    joined = groups.classic_join("", None, "t").value
    assert joined.error is ErrorCode.none
    new.leave(-1)
    assert [kind for _, kind in listed(groups)] == [group_type]


def test_group_whose_last_classic_member_leaves_stays_a_consumer_group() -> None:
    groups, new, old = mixed()
    groups.classic_leave(old)
    assert groups.group is not None
    assert list(groups.group.members) == ["new"]
    for _ in range(2):
        new.turn()
    assert len(new.owned) == 2


def test_group_that_nobody_is_left_in_becomes_no_classic_one() -> None:
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    groups.join("only", "t")
    groups.beat("only", -1)
    assert groups.group is not None
    assert listed(groups) == [("Empty", "consumer")]


@pytest.mark.parametrize(("size_max", "error"), [(2, ErrorCode.none), (1, ErrorCode.group_id_not_found)])
def test_classic_group_becomes_one_of_the_consumer_protocol_up_to_as_many_members_as_such_a_one_has(
    size_max: int, error: ErrorCode
) -> None:
    """group.consumer.max.size. A member of the group that has as many may change its protocol, and no other may join."""
    groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=0, size_max=size_max))
    groups.topics.make("t", 2)
    first = groups.classic_join("", None, "t")
    groups.advance(MembershipLimits().first_delay_ms)
    second = groups.classic_join("", None, "t")
    groups.classic_join(first.value.member_id, None, "t")
    groups.advance(0)
    ids = [first.value.member_id, second.value.member_id]
    assert [member.member_id for member in groups.coordinator.describe(GROUP).members] == ids
    assert groups.join(ids[0], "t").error is error
    assert listed(groups)[0][1] == ("consumer" if error is ErrorCode.none else "classic")
