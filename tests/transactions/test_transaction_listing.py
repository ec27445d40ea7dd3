"""DescribeTransactions and ListTransactions: KIP-664, KIP-994, KIP-1152."""

import pytest

from oncelog.transactions import TransactionStatus, listing
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TX, Ledger, ledger_in


@pytest.fixture
def three() -> Ledger:
    """a-open is Ongoing, a-done CompleteCommit, b-new Empty."""
    ledger = Ledger()
    for name in ("a-open", "a-done", "b-new"):
        ledger.init(transactional_id=name)
    ledger.add(1000, 0, transactional_id="a-open")
    ledger.add(1001, 0, transactional_id="a-done")
    ledger.end(1001, 0, True, transactional_id="a-done")
    ledger.complete("a-done")
    return ledger


def listed(ledger: Ledger, **filters: object) -> set[str]:
    found = listing(ledger.coordinator.transactions(), ledger.now_ms, **filters)  # type: ignore[arg-type]
    assert found.error is ErrorCode.none
    return {metadata.transactional_id for metadata in found.transactions}


def test_without_filters_every_id_is_listed(three: Ledger) -> None:
    assert listed(three) == {"a-open", "a-done", "b-new"}


def test_state_filter_keeps_those_states(three: Ledger) -> None:
    assert listed(three, states=["Ongoing", "Empty"]) == {"a-open", "b-new"}


def test_unknown_state_is_named_and_matches_nothing(three: Ledger) -> None:
    found = listing(three.coordinator.transactions(), three.now_ms, states=["Committed"])
    assert found.unknown_states == ("Committed",)
    assert found.transactions == ()


def test_producer_filter_keeps_those_producers(three: Ledger) -> None:
    assert listed(three, producer_ids=[1001]) == {"a-done"}


def test_duration_filter_keeps_what_began_longer_ago(three: Ledger) -> None:
    began_ms = three.metadata("a-open").start_ms
    three.now_ms = began_ms + 500
    assert "a-open" in listed(three, longer_than_ms=499, states=["Ongoing"])
    assert "a-open" not in listed(three, longer_than_ms=500, states=["Ongoing"])


def test_pattern_must_match_the_whole_id(three: Ledger) -> None:
    assert listed(three, id_pattern="a-.*") == {"a-open", "a-done"}
    assert listed(three, id_pattern="a") == set()
    assert listed(three, id_pattern="") == {"a-open", "a-done", "b-new"}


def test_broken_pattern_is_an_error(three: Ledger) -> None:
    found = listing(three.coordinator.transactions(), three.now_ms, id_pattern="(")
    assert found.error is ErrorCode.invalid_regular_expression


def test_description_is_what_the_log_says() -> None:
    ledger, _, _ = ledger_in(TransactionStatus.ONGOING)
    description = ledger.coordinator.describe(TX)
    assert description.error is ErrorCode.none
    assert description.metadata == ledger.metadata()


def test_description_of_an_unknown_id_is_an_error() -> None:
    assert Ledger().coordinator.describe(TX).error is ErrorCode.transactional_id_not_found


def test_description_of_an_empty_id_is_an_invalid_request() -> None:
    assert Ledger().coordinator.describe("").error is ErrorCode.invalid_request


def test_pattern_that_backtracks_without_end_elsewhere_is_matched_in_linear_time() -> None:
    """Kafka takes patterns of RE2 for this reason (KIP-1152)."""
    ledger = Ledger()
    ledger.init(transactional_id="a" * 60 + "!")
    assert listed(ledger, id_pattern="(a+)+") == set()
