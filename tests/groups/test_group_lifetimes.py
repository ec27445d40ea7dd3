"""When the offsets of a group end, and the group itself (KIP-211, KIP-496)."""

from __future__ import annotations

import pytest

from oncelog.groups import GroupMetadataRecord, GroupMetadataValue, Leaving
from oncelog.groups.context import ANYONE, CommitContext
from oncelog.groups.coordinator import RETENTION_MS
from oncelog.wire import ErrorCode
from tests.groups.group_in_memory import GROUP, GroupInMemory
from tests.groups.offset_log import at

NONE = ErrorCode.none
SUBSCRIBED, OTHER = ("t", 0), ("u", 0)


def commit(group: GroupInMemory, *partitions: tuple[str, int], member: CommitContext = ANYONE) -> None:
    offsets = [at(partition, 1) for partition in partitions]
    decision = group.coordinator.commit_offsets(GROUP, member, offsets, group.now)
    assert set(decision.answer) == {NONE}
    group.write(*decision.records)


def expire(group: GroupInMemory, after_ms: int) -> None:
    for decision in group.coordinator.expire_offsets(group.now.wall_ms + after_ms):
        group.write(*decision.records)


def offsets(group: GroupInMemory) -> set[tuple[str, int]]:
    return set(group.coordinator.offsets_of(GROUP, require_stable=False).committed)


def test_offsets_of_a_group_that_is_empty_are_kept_from_when_its_last_member_left() -> None:
    group = GroupInMemory()
    commit(group, OTHER)
    (member,) = group.stable()
    group.advance(5000)
    group.leave(Leaving(member))
    expire(group, RETENTION_MS - 1)
    assert offsets(group) == {OTHER}
    expire(group, RETENTION_MS)
    assert offsets(group) == set()
    assert group.state == "Dead"


def test_time_since_when_a_group_is_empty_outlives_the_broker() -> None:
    group = GroupInMemory()
    commit(group, OTHER)
    (member,) = group.stable()
    group.advance(5000)
    group.leave(Leaving(member))
    group.advance(1_000_000)
    group.restart()
    expire(group, RETENTION_MS - 1_000_001)
    assert offsets(group) == {OTHER}
    expire(group, RETENTION_MS - 1_000_000)
    assert offsets(group) == set()


def test_offsets_of_a_group_from_before_that_time_was_recorded_are_kept_from_their_commit() -> None:
    group = GroupInMemory()
    commit(group, OTHER)
    group.write(GroupMetadataRecord(GROUP, GroupMetadataValue("consumer", 3), group.now.wall_ms))
    group.restart()
    expire(group, RETENTION_MS)
    assert offsets(group) == set()


def test_stable_consumers_keep_the_offsets_of_what_they_are_subscribed_to() -> None:
    group = GroupInMemory()
    (member,) = group.stable()
    commit(group, SUBSCRIBED, OTHER, member=CommitContext(member, 1))
    expire(group, RETENTION_MS - 1)
    assert offsets(group) == {SUBSCRIBED, OTHER}
    expire(group, RETENTION_MS)
    assert offsets(group) == {SUBSCRIBED}
    assert group.state == "Stable"


@pytest.mark.parametrize(
    ("protocol_type", "said"), [("connect", b""), ("consumer", b"no subscription")], ids=["connect", "garbled"]
)
def test_members_whose_topics_are_not_known_keep_everything(protocol_type: str, said: bytes) -> None:
    group = GroupInMemory()
    commit(group, OTHER)
    reply = group.join(protocol_type=protocol_type, protocols=(("p", said),))
    group.advance(0)
    group.assign([reply.value.member_id], 1)
    expire(group, 2 * RETENTION_MS)
    assert offsets(group) == {OTHER}


def test_group_that_rebalances_keeps_everything() -> None:
    group = GroupInMemory()
    (member,) = group.stable()
    commit(group, OTHER, member=CommitContext(member, 1))
    group.join()
    assert group.state == "PreparingRebalance"
    expire(group, 2 * RETENTION_MS)
    assert offsets(group) == {OTHER}


def test_offset_with_a_retention_of_its_own_ends_then_when_the_group_is_empty() -> None:
    group = GroupInMemory()
    offset = at(OTHER, 1)
    decision = group.coordinator.commit_offsets(GROUP, ANYONE, [offset], group.now, 1000)
    group.write(*decision.records)
    (member,) = group.stable()
    group.leave(Leaving(member))
    expire(group, 999)
    assert offsets(group) == {OTHER}
    expire(group, 1000)
    assert offsets(group) == set()


def test_empty_group_without_offsets_is_removed_at_the_next_look() -> None:
    group = GroupInMemory()
    (member,) = group.stable()
    expire(group, 0)
    assert group.state == "Stable"
    group.leave(Leaving(member))
    expire(group, 0)
    assert group.state == "Dead"
    assert group.reread().members.names() == ()
    assert group.stable(), "somebody who comes then begins at generation 1"


def test_group_is_not_removed_from_under_somebody_who_was_given_an_id() -> None:
    group = GroupInMemory()
    member_id = group.join(needs_member_id=True).value.member_id
    expire(group, RETENTION_MS)
    reply = group.join(member_id)
    group.advance(0)
    assert reply.value.error is NONE


def test_group_with_an_open_transaction_is_not_removed() -> None:
    """Its offsets may be about to come true."""
    group = GroupInMemory()
    decision = group.coordinator.transactional_commit(GROUP, ANYONE, [at(OTHER, 1)], group.now.wall_ms)
    home = group.coordinator.partition_for(GROUP)
    for record in decision.records:
        group.coordinator.replay(home, record, 7, True, 0)
    assert group.coordinator.expire_offsets(group.now.wall_ms + RETENTION_MS) == []
    group.coordinator.replay_marker(home, 7, False)
    expire(group, RETENTION_MS)
    assert group.state == "Dead"


def test_group_with_members_is_not_deleted() -> None:
    group = GroupInMemory()
    (member,) = group.stable()
    assert group.coordinator.delete_group(GROUP, 0).answer is ErrorCode.non_empty_group
    group.leave(Leaving(member))
    decision = group.coordinator.delete_group(GROUP, 0)
    assert decision.records == (GroupMetadataRecord(GROUP, None, 0),)
    group.write(*decision.records)
    assert group.coordinator.delete_group(GROUP, 0).answer is ErrorCode.group_id_not_found
    assert group.coordinator.membership.next_deadline_ms(GROUP) is None


def test_offsets_of_subscribed_topics_are_not_deleted_and_the_others_are_once() -> None:
    group = GroupInMemory()
    (member,) = group.stable()
    commit(group, SUBSCRIBED, OTHER, member=CommitContext(member, 1))
    decision = group.coordinator.delete_offsets(GROUP, [SUBSCRIBED, OTHER, OTHER, ("v", 0)], 0)
    assert decision.answer.errors == (ErrorCode.group_subscribed_to_topic, NONE, NONE, NONE)
    assert len(decision.records) == 1
    group.write(*decision.records)
    assert offsets(group) == {SUBSCRIBED}
