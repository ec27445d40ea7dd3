import pytest

from oncelog.transactions import versions
from oncelog.wire import ErrorCode


@pytest.mark.parametrize(("version", "expected"), [(0, 47), (3, 47), (4, 90), (5, 90)])
def test_init_producer_id_knows_fenced_from_version_4_on(version: int, expected: int) -> None:
    assert versions.init_producer_id_error(ErrorCode.producer_fenced, version) == expected


@pytest.mark.parametrize(("version", "expected"), [(0, 47), (1, 47), (2, 90), (5, 90)])
def test_other_transaction_requests_know_fenced_from_version_2_on(version: int, expected: int) -> None:
    assert versions.transaction_error(ErrorCode.producer_fenced, version) == expected


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (90, 9, 47),
        (90, 13, 47),
        (120, 10, 48),
        (120, 11, 120),
        (51, 11, 19),
        (51, 12, 51),
        (13, 12, 19),
        (14, 12, 19),
        (15, 9, 19),
        (16, 12, 19),
        (49, 12, 49),
        (0, 12, 0),
    ],
)
def test_produce_hides_what_only_a_coordinator_says(error: int, version: int, expected: int) -> None:
    assert versions.produce_error(ErrorCode(error), version) == expected


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (90, 0, 47),
        (90, 5, 47),
        (120, 3, 48),
        (120, 4, 120),
        (69, 5, 22),
        (69, 6, 69),
        (13, 3, 14),
        (13, 1, 15),
        (14, 1, 15),
        (14, 2, 14),
        (51, 5, 51),
        (25, 3, 25),
    ],
)
def test_transactional_offset_commit_answers_in_the_words_of_its_version(
    error: int, version: int, expected: int
) -> None:
    assert versions.transactional_offset_commit_error(ErrorCode(error), version) == expected


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.concurrent_transactions, ErrorCode.invalid_txn_state])
def test_other_errors_are_the_same_in_every_version(error: ErrorCode) -> None:
    assert versions.init_producer_id_error(error, 0) is error
    assert versions.transaction_error(error, 0) is error


def test_requests_of_the_second_protocol_are_told_by_their_version() -> None:
    assert [versions.end_bumps_epoch(version) for version in (4, 5)] == [False, True]
    assert [versions.produce_adds_partitions(version) for version in (11, 12)] == [False, True]
    assert [versions.offset_commit_adds_partitions(version) for version in (4, 5)] == [False, True]
