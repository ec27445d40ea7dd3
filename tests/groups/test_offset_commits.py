"""OffsetCommit and OffsetFetch of groups without members."""

import pytest

from oncelog.groups import CommitContext, CommitDecision, GroupCoordinator, OffsetToCommit
from oncelog.groups.offsets import offset_commit_error
from oncelog.wire import ErrorCode
from tests.groups.offset_log import GROUP, T0, T1, OffsetLog, at


def decide(log: OffsetLog, in_transaction: bool, member: CommitContext, *offsets: OffsetToCommit) -> CommitDecision:
    if in_transaction:
        return log.coordinator.transactional_commit(GROUP, member, offsets, log.now_ms)
    return log.coordinator.commit_offsets(GROUP, member, offsets, log.now)


NONE = ErrorCode.none


def test_committed_offset_is_given_back_with_everything_that_was_said() -> None:
    log = OffsetLog()
    assert log.commit(at(T0, 42, "note", 3)) == (NONE,)
    found = log.fetch_one(T0)
    assert (found.error, found.offset, found.leader_epoch, found.metadata) == (NONE, 42, 3, "note")


def test_later_commit_replaces_the_earlier_one_also_with_a_smaller_offset() -> None:
    log = OffsetLog()
    log.commit(at(T0, 42))
    log.commit(at(T0, 7))
    assert log.fetch() == {T0: 7}


def test_metadata_that_is_null_is_stored_as_empty() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1, None))
    assert log.fetch_one(T0).metadata == ""


def test_partition_without_a_commit_has_no_offset_and_no_error() -> None:
    log = OffsetLog()
    log.commit(at(T0, 1))
    for found in (log.fetch_one(T1), log.fetch_one(T0, "other-group")):
        assert (found.error, found.offset, found.leader_epoch, found.metadata) == (NONE, -1, -1, "")


def test_unknown_group_has_no_partitions() -> None:
    assert GroupCoordinator().offsets_of("nobody", require_stable=True).committed == {}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("x" * 4096, NONE),
        ("x" * 4097, ErrorCode.offset_metadata_too_large),
        ("\U0001f600" * 2048, NONE),
        ("\U0001f600" * 2048 + "x", ErrorCode.offset_metadata_too_large),
    ],
)
def test_metadata_is_limited_to_4096_utf_16_units(metadata: str, expected: ErrorCode) -> None:
    log = OffsetLog()
    assert log.commit(at(T0, 1, metadata)) == (expected,)
    assert log.commit_in_transaction(7, at(T1, 1, metadata)) == (expected,)


def test_one_partition_that_is_refused_does_not_keep_the_others() -> None:
    log = OffsetLog()
    assert log.commit(at(T0, 1, "x" * 5000), at(T1, 2)) == (ErrorCode.offset_metadata_too_large, NONE)
    assert log.fetch() == {T1: 2}


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    "member",
    [CommitContext(), CommitContext("member-1"), CommitContext("", -1, "instance"), CommitContext("member-1", -1)],
)
def test_commit_without_a_generation_is_one_of_a_simple_group(
    member: CommitContext, exists: bool, in_transaction: bool
) -> None:
    log = OffsetLog()
    if exists:
        log.commit(at(T1, 1))
    assert decide(log, in_transaction, member, at(T0, 5)).answer == (NONE,)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("generation", [0, 3])
@pytest.mark.parametrize("exists", [False, True])
def test_commit_of_a_generation_is_refused_where_nobody_is_a_member(
    exists: bool, generation: int, in_transaction: bool
) -> None:
    log = OffsetLog()
    if exists:
        log.commit_in_transaction(7, at(T1, 1))
    decision = decide(log, in_transaction, CommitContext("member-1", generation), at(T0, 5), at(T1, 6))
    assert decision.records == ()
    assert decision.answer == ((ErrorCode.unknown_member_id if exists else ErrorCode.group_id_not_found),) * 2


def test_empty_group_id_is_refused_in_a_transaction_only() -> None:
    """Offsets of the empty group are an old habit of simple consumers; transactions are younger than that."""
    log = OffsetLog()
    assert log.commit_in_transaction(7, at(T0, 1), group="") == (ErrorCode.invalid_group_id,)
    assert log.commit(at(T0, 1), group="") == (NONE,)


@pytest.mark.parametrize(("version", "expected"), [(8, 22), (9, 69)])
def test_missing_group_is_a_wrong_generation_before_version_9(version: int, expected: int) -> None:
    assert offset_commit_error(ErrorCode.group_id_not_found, version) == expected
    assert offset_commit_error(ErrorCode.unknown_member_id, version) == 25
