"""What ends an offset: KIP-211 (retention), OffsetDelete, DeleteGroups, and the end of its topic."""

import pytest

from oncelog.groups.coordinator import RETENTION_MS
from oncelog.wire import ErrorCode
from tests.groups.offset_log import GROUP, T0, T1, TOPIC_ID, OffsetLog, at

NONE = ErrorCode.none


def expire(log: OffsetLog) -> None:
    for decision in log.coordinator.expire_offsets(log.now_ms):
        log.apply(decision)


def test_offset_lives_for_its_retention() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1))
    committed_ms = log.now_ms - 1
    log.now_ms = committed_ms + RETENTION_MS - 1
    expire(log)
    assert log.fetch() == {T0: 1}
    log.now_ms = committed_ms + RETENTION_MS
    expire(log)
    assert log.fetch() == {}
    assert log.coordinator.members.names() == ()


@pytest.mark.parametrize("retention_ms", [1000, 10 * RETENTION_MS])
def test_retention_of_its_own_counts_instead(retention_ms: int) -> None:
    log = OffsetLog()
    log.commit(at(T0, 1), retention_ms=retention_ms)
    committed_ms = log.now_ms - 1
    log.now_ms = committed_ms + retention_ms - 1
    expire(log)
    assert log.fetch() == {T0: 1}
    log.now_ms = committed_ms + retention_ms
    expire(log)
    assert log.fetch() == {}


def test_only_what_is_old_goes() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1))
    log.now_ms += RETENTION_MS
    log.commit(at(T1, 2))
    expire(log)
    assert log.fetch() == {T1: 2}


def test_offset_that_a_transaction_is_about_to_replace_stays() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1))
    log.commit_in_transaction(7, at(T0, 2))
    log.now_ms += 2 * RETENTION_MS
    expire(log)
    assert log.fetch() == {T0: 1}


def test_deleted_offsets_are_gone_and_the_others_stay() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1), at(T1, 2))
    decision = log.coordinator.delete_offsets(GROUP, [T0, ("u", 9)], log.now_ms)
    assert len(decision.records) == 1
    log.apply(decision)
    assert decision.answer.errors == (NONE, NONE)
    assert log.fetch() == {T1: 2}


def test_deleted_group_loses_its_pending_offsets_too() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1))
    log.commit_in_transaction(7, at(T1, 2))
    decision = log.coordinator.delete_group(GROUP, log.now_ms)
    log.apply(decision)
    assert decision.answer is NONE
    log.end(7, True)
    assert log.fetch() == {}
    assert log.coordinator.members.names() == ()


def test_unknown_group_cannot_be_deleted_nor_its_offsets() -> None:
    log = OffsetLog()
    assert log.coordinator.delete_group(GROUP, 0).answer is ErrorCode.group_id_not_found
    assert log.coordinator.delete_offsets(GROUP, [T0], 0).answer.error is ErrorCode.group_id_not_found


@pytest.mark.parametrize("stores_topic_ids", [True, False])
def test_offset_has_the_id_of_its_topic_where_topics_are_told_apart_by_it(stores_topic_ids: bool) -> None:
    log = OffsetLog(stores_topic_ids=stores_topic_ids)
    log.commit(at(T0, 1))
    log.commit(at(T1, 1), retention_ms=1000)
    assert log.reread().offsets == log.coordinator.offsets
    home = log.coordinator.partition_for(GROUP)
    assert log.coordinator.offsets.topic_ids(home, GROUP, T0) == {TOPIC_ID if stores_topic_ids else None}
    assert log.coordinator.offsets.topic_ids(home, GROUP, T1) == {None}


def test_end_of_a_topic_ends_its_offsets_in_every_group() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1), at(("u", 0), 2))
    log.commit(at(T1, 1), group="other")
    log.commit(at(("u", 0), 1), group="third")
    for decision in log.coordinator.forget_topics({"t": {None}}, log.now_ms):
        log.apply(decision)
    assert (log.fetch(), log.fetch("other"), log.fetch("third")) == ({("u", 0): 2}, {}, {("u", 0): 1})
