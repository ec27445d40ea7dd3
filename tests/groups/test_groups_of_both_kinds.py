"""Groups of the classic and of the consumer protocol beside each other, and members of one in a group of the other (KIP-848)."""

from __future__ import annotations

import pytest

from harness.group_requests import REBALANCE_MS
from oncelog.groups import ANYONE, GroupRecord, Leaving, encode
from oncelog.groups.records import CONSUMER_KEY_VERSIONS, decode, decode_of_member
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.groups.consumers_in_memory import Consumer, ConsumersInMemory
from tests.groups.group_in_memory import GROUP, GroupInMemory
from tests.groups.offset_log import T0, at

STEP_MS = 5_000
"""Often enough for every session."""


def listed(groups: ConsumersInMemory | GroupInMemory, **filters: tuple[str, ...]) -> list[tuple[str, str]]:
    """The state and the type of each group that is listed. One that is named and not there is left out."""
    names = ("no-such-group", GROUP)
    return [(group.state, group.type) for group in groups.coordinator.list_groups(names, **filters)]


def test_group_is_listed_by_its_state_and_its_type() -> None:
    """ListGroups v5: StatesFilter and TypesFilter, in whatever case; what is empty lets everything pass."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 1)
    groups.join("a", "t")
    assert listed(groups) == [("Stable", "consumer")]
    assert listed(groups, states=("stable",)) == [("Stable", "consumer")]
    assert listed(groups, states=("empty",)) == []
    assert listed(groups, types=("consumer",)) == [("Stable", "consumer")]
    assert listed(groups, types=("classic",)) == []
    assert listed(groups, states=("stable",), types=("classic",)) == []


def test_classic_group_is_listed_as_one() -> None:
    group = GroupInMemory()
    group.stable()
    assert listed(group, types=("classic",)) == [("Stable", "classic")]
    assert listed(group, states=("preparingrebalance",)) == []


def test_member_that_waits_when_its_group_moves_to_another_broker_is_told_so() -> None:
    group = GroupInMemory()
    (leader,) = group.stable()
    joining = group.join()
    coordinator = group.coordinator
    for due in coordinator.unload(coordinator.partition_for(GROUP), group.now):
        due.give()
    assert joining.value.error is ErrorCode.not_coordinator
    assert group.state == "Dead"
    assert group.heartbeat(leader, 1) is ErrorCode.unknown_member_id


def test_group_of_another_partition_is_left_alone_by_an_unload() -> None:
    group = GroupInMemory()
    group.stable()
    coordinator = group.coordinator
    other = (coordinator.partition_for(GROUP) + 1) % coordinator.partition_count
    assert coordinator.unload(other, group.now) == ()
    assert group.state == "Stable"


def test_offsets_are_fetched_in_the_epoch_that_the_member_has_alone() -> None:
    """OffsetFetch v9: STALE_MEMBER_EPOCH for a member of the consumer protocol, ILLEGAL_GENERATION for a classic one."""
    groups = ConsumersInMemory()
    groups.topics.make("t", 2)
    epoch = groups.join("new", "t").member_epoch
    joined = groups.classic_join("", None, "t").value
    old, generation = joined.member_id, joined.generation
    fetch = groups.coordinator.check_fetch
    assert fetch(GROUP, "new", epoch) is ErrorCode.none
    assert fetch(GROUP, "new", epoch + 1) is ErrorCode.stale_member_epoch
    assert fetch(GROUP, old, generation) is ErrorCode.none
    assert fetch(GROUP, old, generation - 1) is ErrorCode.illegal_generation
    assert fetch(GROUP, "nobody", epoch) is ErrorCode.unknown_member_id
    assert fetch(GROUP, None, -1) is ErrorCode.none


def test_static_member_that_starts_again_takes_the_place_of_its_former_self() -> None:
    groups = ConsumersInMemory()
    groups.topics.make("t", 2)
    groups.join("new", "t")
    first = groups.classic_join("", "i", "t").value
    again = groups.classic_join("", "i", "t").value
    assert (first.error, again.error) == (ErrorCode.none, ErrorCode.none)
    assert again.member_id != first.member_id
    assert groups.group is not None
    assert set(groups.group.members) == {"new", again.member_id}


def test_classic_member_that_is_told_to_join_again_by_its_sync_has_its_rebalance_timeout_for_it() -> None:
    groups = ConsumersInMemory()
    groups.topics.make("t", 2)
    consumer = Consumer(groups, "new", ("t",))
    consumer.turn()
    joined = groups.classic_join("", None, "t").value
    # From here on it is not the sync that is waited for.
    assert groups.classic_sync(joined.member_id, joined.generation).value.error is ErrorCode.none
    groups.topics.make("t", 4)
    consumer.turn()
    assert groups.classic_sync(joined.member_id, joined.generation).value.error is ErrorCode.rebalance_in_progress
    for _ in range(REBALANCE_MS // STEP_MS):
        assert groups.group is not None
        assert joined.member_id in groups.group.members
        groups.advance(STEP_MS)
        consumer.turn()
        groups.classic_heartbeat(joined.member_id, joined.generation)
    assert groups.group is not None
    assert joined.member_id not in groups.group.members


def test_commit_of_somebody_who_is_no_member_keeps_no_session_alive() -> None:
    """Neither where there is no group, nor where an administrator sets offsets of one that is empty."""
    group = GroupInMemory()
    committed(group)
    (leader,) = group.stable()
    assert group.leave(Leaving(leader)).errors == (ErrorCode.none,)
    committed(group)
    assert (group.state, group.members()) == ("Empty", [])
    group.advance(REBALANCE_MS)
    assert (group.state, group.members()) == ("Empty", [])
    assert group.coordinator.membership.next_deadline_ms(GROUP) is None


def committed(group: GroupInMemory) -> None:
    decision = group.coordinator.commit_offsets(GROUP, ANYONE, [at(T0, 1)], group.now)
    assert decision.answer == (ErrorCode.none,)
    group.write(*decision.records)
    decision.remember()


def written_by_consumers() -> list[GroupRecord]:
    groups = ConsumersInMemory()
    groups.topics.make("topic", 2)
    epoch = groups.join("a", regex="top.*").member_epoch
    groups.beat("a", epoch, owned=frozenset())
    groups.beat("a", -1)
    return [record for raw in groups.log if (record := decode(raw)) is not None]


def test_every_record_of_a_consumer_group_is_known_by_its_key() -> None:
    """The keys of __consumer_offsets: 3 to 8 are of consumer groups, and 16 is a regular expression that was resolved."""
    kinds = {int.from_bytes(encode(record).key[:2], "big") for record in written_by_consumers()}
    assert kinds >= {3, 5, 6, 7, 8}
    assert kinds <= set(CONSUMER_KEY_VERSIONS)


def test_cluster_over_zookeeper_leaves_out_what_is_of_consumer_groups_and_reads_the_rest() -> None:
    """Kafka 3.9 has no consumer groups in ZooKeeper mode; the topic may have been written by a broker that has."""
    group = GroupInMemory()
    group.stable()
    assert [decode_of_member(raw) for raw in group.log] == [decode(raw) for raw in group.log]
    assert all(decode_of_member(raw) is not None for raw in group.log)
    assert [decode_of_member(encode(record)) for record in written_by_consumers()] == [None] * len(
        written_by_consumers()
    )


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8, 16])
def test_cluster_over_zookeeper_does_not_look_into_a_key_of_a_consumer_group(version: int) -> None:
    assert decode_of_member(Record(version.to_bytes(2, "big") + b"\xff", b"damaged")) is None
