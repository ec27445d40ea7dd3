"""What a producer is told beside the error: its id and its epoch, and when something happened."""

from __future__ import annotations

import pytest

from oncelog.transactions import TransactionStatus, listing
from oncelog.transactions.state import LAST_CLIENT_EPOCH
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TX, Ledger, ledger_in

IDLE = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


@pytest.mark.parametrize("commit", [False, True])
def test_end_without_a_bump_and_its_retry_keep_the_producer_s_id_and_epoch(commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING, tv2=False)
    first = ledger.end(producer_id, epoch, commit, tv2=False)
    ledger.complete()
    again = ledger.end(producer_id, epoch, commit, tv2=False)
    for answer in (first, again):
        assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, producer_id, epoch)
    assert again.markers is None


@pytest.mark.parametrize("status", IDLE)
def test_idle_producer_that_is_fenced_after_a_power_loss_loses_one_epoch(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    decision = ledger.coordinator.fence(TX, ledger.now_ms, ledger.allocate)
    ledger.apply(decision)
    assert decision.answer.error is ErrorCode.none
    assert (ledger.metadata().producer_id, ledger.metadata().producer_epoch) == (producer_id, epoch + 1)


@pytest.mark.parametrize("status", IDLE)
def test_idle_producer_without_a_further_epoch_gets_another_id_when_it_is_fenced(status: TransactionStatus) -> None:
    ledger, producer_id, _ = ledger_in(status)
    ledger.seed(producer_epoch=LAST_CLIENT_EPOCH)
    ledger.apply(ledger.coordinator.fence(TX, ledger.now_ms, ledger.allocate))
    assert ledger.metadata().producer_id != producer_id
    assert ledger.metadata().producer_epoch == 0


def test_open_transaction_that_is_fenced_after_a_power_loss_is_answered_with_the_markers_of_its_abort() -> None:
    ledger, _, epoch = ledger_in(TransactionStatus.ONGOING)
    answer = ledger.coordinator.fence(TX, ledger.now_ms, ledger.allocate).answer
    assert answer.error is ErrorCode.none
    assert answer.markers is not None
    assert (answer.markers.committed, answer.markers.producer_epoch) == (False, epoch + 1)


def test_every_step_of_a_transaction_is_dated_in_its_record() -> None:
    """`transactional.id.expiration.ms` counts from the last update."""
    ledger = Ledger()
    owner = ledger.init()
    ledger.add(owner.producer_id, owner.producer_epoch)
    ledger.end(owner.producer_id, owner.producer_epoch, True)
    ledger.complete()
    ledger.init()
    dated = [record.timestamp_ms for _, record in ledger.log]
    assert dated == [1_700_000_000_000 + step for step in range(5)]
    ledger.restart()
    assert ledger.metadata().last_update_ms == dated[-1]


def test_abort_of_nothing_has_its_own_time_as_its_beginning() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.COMPLETE_COMMIT)
    now_ms = ledger.now_ms
    ledger.end(producer_id, epoch, False)
    assert (ledger.metadata().start_ms, ledger.metadata().last_update_ms) == (now_ms, now_ms)


def test_end_of_a_transaction_keeps_the_time_of_its_beginning() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    began_ms = ledger.metadata().start_ms
    ledger.now_ms += 500
    ledger.end(producer_id, epoch, True)
    assert ledger.metadata().start_ms == began_ms


def test_duration_of_zero_leaves_out_what_begins_at_this_moment() -> None:
    """ListTransactions v1: `DurationFilter` keeps what runs longer than it, and -1 everything."""
    ledger, _, _ = ledger_in(TransactionStatus.ONGOING)
    began_ms = ledger.metadata().start_ms
    found = [
        len(listing(ledger.coordinator.transactions(), began_ms, longer_than_ms=longer_than_ms).transactions)
        for longer_than_ms in (-1, 0)
    ]
    assert found == [1, 0]


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(0, "invalid_transaction_timeout"), (1, "none"), (-1, "invalid_transaction_timeout")]
)
def test_shortest_timeout_is_one_millisecond(timeout_ms: int, error: str) -> None:
    ledger = Ledger()
    decision = ledger.coordinator.init_producer_id(TX, timeout_ms, -1, -1, ledger.now_ms, ledger.allocate)
    assert decision.answer.error is ErrorCode[error]
