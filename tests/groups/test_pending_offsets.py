"""Offsets inside a transaction: KIP-98 §TxnOffsetCommit, KIP-447 (require_stable)."""

from uuid import UUID

import pytest

from oncelog.wire import ErrorCode
from tests.groups.offset_log import GROUP, T0, T1, TOPIC_ID, OffsetLog, at

NONE, UNSTABLE = ErrorCode.none, ErrorCode.unstable_offset_commit


def test_pending_offset_is_not_there_yet_and_makes_the_partition_unstable() -> None:
    log = OffsetLog()
    log.commit(at(T0, 10), at(T1, 10))
    log.commit_in_transaction(7, at(T0, 20))
    assert log.fetch() == {T0: 10, T1: 10}
    found = log.fetch_one(T0)
    assert (found.error, found.offset, found.leader_epoch, found.metadata) == (UNSTABLE, -1, -1, "")
    assert log.fetch_one(T1).error is NONE


def test_first_offset_of_a_group_is_unstable_too() -> None:
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    assert log.fetch_one(T0).error is UNSTABLE
    assert log.fetch_one(T0, stable=False).offset == -1
    assert log.fetch() == {}


def test_every_partition_of_the_group_shows_the_unstable_ones_when_all_are_asked_for() -> None:
    log = OffsetLog()
    log.commit(at(T0, 10), at(T1, 10))
    log.commit_in_transaction(7, at(T0, 20))
    assert log.fetch(stable=True) == {T0: -1, T1: 10}


@pytest.mark.parametrize("committed", [False, True])
def test_marker_decides(committed: bool) -> None:
    log = OffsetLog()
    log.commit(at(T0, 10))
    log.commit_in_transaction(7, at(T0, 20), at(T1, 30))
    log.end(7, committed)
    assert log.fetch(stable=True) == ({T0: 20, T1: 30} if committed else {T0: 10})
    assert log.fetch_one(T1).error is NONE


def test_last_commit_of_a_transaction_counts() -> None:
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    log.commit_in_transaction(7, at(T0, 21))
    log.end(7, True)
    assert log.fetch() == {T0: 21}


def test_record_that_is_later_in_the_log_wins_over_the_transaction_that_ends_later() -> None:
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    log.commit(at(T0, 30))
    log.end(7, True)
    assert log.fetch() == {T0: 30}


@pytest.mark.parametrize("first", [7, 8])
def test_of_two_transactions_the_later_record_wins_whichever_ends_first(first: int) -> None:
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    log.commit_in_transaction(8, at(T0, 30))
    log.end(first, True)
    assert log.fetch_one(T0).error is UNSTABLE
    log.end(15 - first, True)
    assert log.fetch_one(T0).offset == 30


def test_marker_of_another_producer_ends_nothing() -> None:
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    log.end(8, True)
    assert log.fetch_one(T0).error is UNSTABLE


def test_marker_reaches_only_the_groups_of_its_partition() -> None:
    """A transaction may hold groups on several partitions of the offsets topic; each gets a marker of its own."""
    log = OffsetLog()
    assert log.coordinator.partition_for("polygenelubricants") != log.coordinator.partition_for(GROUP)
    log.commit_in_transaction(7, at(T0, 20))
    log.commit_in_transaction(7, at(T0, 30), group="polygenelubricants")
    log.end(7, True)
    assert log.fetch() == {T0: 20}
    assert log.fetch_one(T0, "polygenelubricants").error is UNSTABLE
    log.end(7, True, "polygenelubricants")
    assert log.fetch("polygenelubricants") == {T0: 30}


def test_one_marker_ends_the_pending_offsets_of_every_group_on_its_partition() -> None:
    log = OffsetLog()
    home = log.coordinator.partition_for(GROUP)
    other = next(f"g{n}" for n in range(10_000) if log.coordinator.partition_for(f"g{n}") == home)
    log.commit_in_transaction(7, at(T0, 20))
    log.commit_in_transaction(7, at(T0, 30), group=other)
    log.end(7, True)
    assert (log.fetch(), log.fetch(other)) == ({T0: 20}, {T0: 30})


def test_repeated_marker_changes_nothing() -> None:
    """After a start the markers of a decided transaction go out again."""
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    log.end(7, True)
    log.commit(at(T0, 30))
    log.end(7, True)
    log.end(7, False)
    assert log.fetch() == {T0: 30}


def test_pending_offset_of_a_deleted_topic_never_comes_back() -> None:
    log = OffsetLog()
    other = ("u", 0)
    log.commit_in_transaction(7, at(T0, 20), at(other, 20))
    (decision,) = log.coordinator.forget_topics({"t": {None}}, log.now_ms)
    log.apply(decision)
    assert log.fetch_one(T0).error is NONE
    log.end(7, True)
    assert log.fetch() == {other: 20}


def test_offset_of_a_deleted_topic_stays_where_a_transaction_is_to_put_another_in_its_place() -> None:
    """That one is for the topic which has been made since under the same name."""
    log = OffsetLog(stores_topic_ids=True)
    log.commit(at(T0, 10), at(T1, 10))
    log.commit_in_transaction(7, at(T0, 20, topic_id=UUID(int=8)))
    (decision,) = log.coordinator.forget_topics({"t": {TOPIC_ID, None}}, log.now_ms)
    log.apply(decision)
    log.end(7, True)
    assert log.fetch() == {T0: 20}


def test_copy_of_the_offsets_of_a_group_is_of_one_moment() -> None:
    log = OffsetLog()
    log.commit(at(T0, 10), at(T1, 10))
    log.commit_in_transaction(7, at(T0, 20))
    live = log.coordinator.offsets_of(GROUP, require_stable=True)
    before = live.copy()
    log.end(7, committed=True)
    assert before.fetched(T0).error is ErrorCode.unstable_offset_commit
    assert before.committed[T0].committed.offset == 10
    after = log.coordinator.offsets_of(GROUP, require_stable=True)
    assert after.fetched(T0).offset == 20


def test_offset_that_is_deleted_while_it_is_pending_is_not_committed() -> None:
    log = OffsetLog()
    log.commit(at(T1, 10))
    log.commit_in_transaction(7, at(T0, 20))
    log.apply(log.coordinator.delete_offsets(GROUP, [T0], log.now_ms))
    log.end(7, committed=True)
    assert log.fetch() == {T1: 10}


def test_pending_offset_of_another_partition_of_the_offsets_topic_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where that topic has grown, groups are looked for in partitions that do not have them."""
    log = OffsetLog()
    log.commit_in_transaction(7, at(T0, 20))
    home = log.coordinator.partition_for(GROUP)
    assert log.coordinator.offsets.topic_ids(home, GROUP, T0)
    assert log.coordinator.offsets.topic_ids(home + 1, GROUP, T0) == set()
    monkeypatch.setattr(log.coordinator, "partition_count", log.coordinator.partition_count + 1)
    assert log.coordinator.partition_for(GROUP) != home
    assert log.coordinator.forget_topics({T0[0]: {None}}, 0) == []
