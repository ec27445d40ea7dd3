"""A power cut may take back what a producer was told: that a partition was added, that a batch was appended."""

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TX, Ledger, ledger_in

IDLE = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
ALL = (*IDLE, *DECIDED, TransactionStatus.ONGOING)
REFUSED = (ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping)
BOTH = pytest.mark.parametrize("tv2", [False, True])


def start_after_power_loss(ledger: Ledger) -> None:
    """Decided transactions are completed before their producers are fenced."""
    ledger.restart()
    for markers in ledger.coordinator.pending_completions():
        ledger.complete(markers.transactional_id)
    for metadata in tuple(ledger.coordinator.transactions()):
        decision = ledger.coordinator.fence(metadata.transactional_id, ledger.now_ms, ledger.allocate)
        ledger.apply(decision)
        if decision.answer.markers is not None:
            ledger.complete(metadata.transactional_id)


@BOTH
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", [*IDLE, *DECIDED])
def test_producer_whose_open_transaction_may_be_lost_cannot_end_it(
    status: TransactionStatus, commit: bool, tv2: bool
) -> None:
    """What the log knows may be the state before the transaction: a commit must not be answered as a repeated one."""
    ledger, producer_id, epoch = ledger_in(status, tv2)
    start_after_power_loss(ledger)
    assert ledger.end(producer_id, epoch, commit, tv2).error in REFUSED
    assert ledger.add(producer_id, epoch, tv2=tv2) in REFUSED
    assert ledger.coordinator.verify(TX, producer_id, epoch, "t", 0) in REFUSED


def test_open_transaction_is_aborted_and_its_commit_refused() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    start_after_power_loss(ledger)
    assert ledger.status() is TransactionStatus.COMPLETE_ABORT
    assert ledger.end(producer_id, epoch, True).error is ErrorCode.invalid_txn_state
    assert ledger.add(producer_id, epoch) is ErrorCode.producer_fenced


def test_producer_id_that_was_promised_for_the_next_transaction_is_taken_back() -> None:
    ledger, producer_id, _ = ledger_in(TransactionStatus.ONGOING)
    ledger.seed(producer_epoch=32766)
    answer = ledger.end(producer_id, 32766, True)
    start_after_power_loss(ledger)
    assert ledger.status() is TransactionStatus.EMPTY
    assert ledger.end(answer.producer_id, 0, True).error in REFUSED
    assert ledger.add(answer.producer_id, 0) in REFUSED


@pytest.mark.parametrize("status", ALL)
@pytest.mark.parametrize("epoch", [5, 32765, 32766])
def test_new_producer_goes_on_and_no_epoch_is_given_twice(status: TransactionStatus, epoch: int) -> None:
    ledger, producer_id, _ = ledger_in(status)
    ledger.seed(producer_epoch=epoch)
    start_after_power_loss(ledger)
    answer = ledger.init()
    assert answer.error is ErrorCode.none
    assert answer.producer_id != producer_id or answer.producer_epoch > epoch
    assert answer.producer_epoch <= 32766
