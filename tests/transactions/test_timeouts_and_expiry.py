"""What time does to a transactional id: KIP-98 §4.2 (timeouts), and the expiry of ids."""

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.transactions.coordinator import ID_EXPIRATION_MS
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TIMEOUT_MS, TX, Ledger, ledger_in

ONGOING = TransactionStatus.ONGOING
IDLE = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


def time_out(ledger: Ledger) -> None:
    ledger.now_ms = ledger.metadata().start_ms + TIMEOUT_MS + 1
    for decision in ledger.coordinator.abort_timed_out(ledger.now_ms):
        ledger.apply(decision)


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_transaction_that_outlived_its_timeout_is_aborted_with_the_epoch_bumped(transaction_version: int) -> None:
    ledger = Ledger(transaction_version)
    owner = ledger.init()
    ledger.add(owner.producer_id, owner.producer_epoch, [("t", 0), ("t", 1)])
    ledger.now_ms = ledger.metadata().start_ms + TIMEOUT_MS + 1
    (decision,) = ledger.coordinator.abort_timed_out(ledger.now_ms)
    markers = decision.answer.markers
    assert markers is not None
    assert not markers.committed
    assert markers.producer_epoch == owner.producer_epoch + 1
    assert markers.partitions == {("t", 0), ("t", 1)}
    assert markers.transaction_version == (2 if transaction_version == 2 else 0)
    ledger.apply(decision)
    assert ledger.status() is TransactionStatus.PREPARE_ABORT


def test_transaction_at_its_timeout_still_lives() -> None:
    ledger, _, _ = ledger_in(ONGOING)
    assert ledger.coordinator.abort_timed_out(ledger.metadata().start_ms + TIMEOUT_MS) == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_timeout_counts_from_the_beginning_whatever_joins_later(is_restarted: bool) -> None:
    """KIP-98: transaction.timeout.ms is for the whole transaction, not for the time between two of its requests."""
    ledger, producer_id, epoch = ledger_in(ONGOING)
    began_ms = ledger.metadata().start_ms
    ledger.now_ms = began_ms + TIMEOUT_MS - 1
    assert ledger.add(producer_id, epoch, [("u", 0)]) is ErrorCode.none
    if is_restarted:
        ledger.restart()
    assert ledger.coordinator.abort_timed_out(began_ms + TIMEOUT_MS) == []
    (decision,) = ledger.coordinator.abort_timed_out(began_ms + TIMEOUT_MS + 1)
    assert decision.answer.markers is not None
    assert decision.answer.markers.partitions == {("t", 0), ("u", 0)}


def test_next_transaction_has_its_whole_timeout() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.COMPLETE_COMMIT, tv2=False)
    ledger.now_ms += TIMEOUT_MS
    began_ms = ledger.now_ms
    assert ledger.add(producer_id, epoch, tv2=False) is ErrorCode.none
    assert ledger.coordinator.abort_timed_out(began_ms + TIMEOUT_MS) == []
    assert len(ledger.coordinator.abort_timed_out(began_ms + TIMEOUT_MS + 1)) == 1


@pytest.mark.parametrize("status", [*IDLE, *DECIDED])
def test_only_open_transactions_time_out(status: TransactionStatus) -> None:
    ledger, _, _ = ledger_in(status)
    assert ledger.coordinator.abort_timed_out(ledger.now_ms + 10 * TIMEOUT_MS) == []


def test_transaction_whose_end_is_pending_does_not_time_out() -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING)
    ledger.hold(ledger.decide_end(producer_id, epoch, True))
    assert ledger.coordinator.abort_timed_out(ledger.now_ms + 10 * TIMEOUT_MS) == []


@pytest.mark.parametrize("commit", [False, True])
def test_timed_out_producer_without_epochs_per_transaction_is_fenced(commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING, tv2=False)
    time_out(ledger)
    assert ledger.end(producer_id, epoch, commit, tv2=False).error is ErrorCode.producer_fenced
    ledger.complete()
    assert ledger.end(producer_id, epoch, commit, tv2=False).error is ErrorCode.producer_fenced
    assert ledger.add(producer_id, epoch) is ErrorCode.producer_fenced
    assert ledger.coordinator.verify(TX, producer_id, epoch, "t", 0) is ErrorCode.producer_fenced


def test_timed_out_producer_with_epochs_per_transaction_learns_it_and_goes_on() -> None:
    """KIP-890: its abort counts as a retry of the coordinator's, its commit is refused."""
    ledger, producer_id, epoch = ledger_in(ONGOING)
    time_out(ledger)
    assert ledger.end(producer_id, epoch, False).error is ErrorCode.concurrent_transactions
    ledger.complete()
    assert ledger.end(producer_id, epoch, True).error is ErrorCode.invalid_txn_state
    answer = ledger.end(producer_id, epoch, False)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, producer_id, epoch + 1)
    assert ledger.add(producer_id, epoch + 1) is ErrorCode.none


def test_timed_out_producer_may_ask_for_its_bump() -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING, tv2=False)
    time_out(ledger)
    ledger.complete()
    answer = ledger.init(producer_id, epoch)
    assert (answer.error, answer.producer_epoch) == (ErrorCode.none, epoch + 1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_timed_out_producer_of_the_first_generation_may_not_ask_for_a_bump(is_restarted: bool) -> None:
    """KIP-360: only who has the stored epoch, or had it before its own bump. The bump of a timeout is nobody's own."""
    ledger = Ledger(transaction_version=1)
    zombie = ledger.init()
    ledger.add(zombie.producer_id, zombie.producer_epoch, tv2=False)
    time_out(ledger)
    assert ledger.init(zombie.producer_id, zombie.producer_epoch).error is ErrorCode.concurrent_transactions
    ledger.complete()
    if is_restarted:
        ledger.restart()
    assert ledger.init(zombie.producer_id, zombie.producer_epoch).error is ErrorCode.producer_fenced
    assert ledger.metadata().producer_epoch == zombie.producer_epoch + 1
    heir = ledger.init()
    assert heir.producer_epoch == zombie.producer_epoch + 2
    assert ledger.init(zombie.producer_id, zombie.producer_epoch).error is ErrorCode.producer_fenced


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_producer_that_an_heir_has_fenced_comes_back_in_vain(transaction_version: int) -> None:
    """Whatever it asks, and in whatever state: an abort, a commit, partitions, a bump."""
    tv2 = transaction_version == 2
    ledger = Ledger(transaction_version)
    zombie = ledger.init()
    ledger.add(zombie.producer_id, zombie.producer_epoch, tv2=tv2)
    assert ledger.init().error is ErrorCode.concurrent_transactions
    ledger.complete()
    heir = ledger.init()
    for is_open in (False, True):
        if is_open:
            assert ledger.add(heir.producer_id, heir.producer_epoch, tv2=tv2) is ErrorCode.none
        old = zombie.producer_id, zombie.producer_epoch
        assert ledger.init(*old).error is ErrorCode.producer_fenced
        assert ledger.add(*old, tv2=tv2) is ErrorCode.producer_fenced
        assert {ledger.end(*old, commit, tv2).error for commit in (True, False)} == {ErrorCode.producer_fenced}
        assert ledger.coordinator.verify(TX, *old, "t", 0) is ErrorCode.producer_fenced
    assert ledger.status() is ONGOING


def test_transaction_that_began_before_a_restart_times_out_after_it() -> None:
    ledger, _, _ = ledger_in(ONGOING)
    ledger.restart()
    time_out(ledger)
    assert ledger.status() is TransactionStatus.PREPARE_ABORT


# Expiry


@pytest.mark.parametrize("status", IDLE)
def test_idle_id_is_forgotten_after_its_time(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    ledger.now_ms = ledger.metadata().last_update_ms + ID_EXPIRATION_MS
    (decision,) = ledger.coordinator.expire_ids(ledger.now_ms)
    assert [record.metadata for record in decision.records] == [None]
    ledger.apply(decision)
    assert ledger.coordinator.ids.metadata(TX) is None
    assert ledger.add(producer_id, epoch) is ErrorCode.invalid_producer_id_mapping
    ledger.restart()
    assert ledger.coordinator.ids.metadata(TX) is None


@pytest.mark.parametrize("status", IDLE)
def test_idle_id_is_kept_until_then(status: TransactionStatus) -> None:
    ledger, _, _ = ledger_in(status)
    assert ledger.coordinator.expire_ids(ledger.metadata().last_update_ms + ID_EXPIRATION_MS - 1) == []


@pytest.mark.parametrize("status", [ONGOING, *DECIDED])
def test_id_with_a_transaction_never_expires(status: TransactionStatus) -> None:
    ledger, _, _ = ledger_in(status)
    assert ledger.coordinator.expire_ids(ledger.now_ms + 10 * ID_EXPIRATION_MS) == []


def test_id_that_is_pending_does_not_expire() -> None:
    ledger, _, _ = ledger_in(TransactionStatus.EMPTY)
    ledger.hold(ledger.decide_init())
    assert ledger.coordinator.expire_ids(ledger.now_ms + 10 * ID_EXPIRATION_MS) == []


def test_request_for_an_id_that_is_being_forgotten_waits() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.EMPTY)
    for decision in ledger.coordinator.expire_ids(ledger.now_ms + 2 * ID_EXPIRATION_MS):
        ledger.hold(decision)
    assert ledger.decide_init().answer.error is ErrorCode.concurrent_transactions
    assert ledger.add(producer_id, epoch) is ErrorCode.concurrent_transactions
