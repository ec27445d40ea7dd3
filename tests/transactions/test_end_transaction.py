"""EndTxn: KIP-98 §5.1 up to version 4, KIP-890 from version 5 on."""

from __future__ import annotations

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TX, Ledger, ledger_in

EMPTY, ONGOING = TransactionStatus.EMPTY, TransactionStatus.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT
ALL = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)

NONE = ErrorCode.none
BUSY = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
STATE = ErrorCode.invalid_txn_state
MAPPING = ErrorCode.invalid_producer_id_mapping

# state: what an abort and a commit at the stored epoch are told.
WITHOUT_BUMP = {
    EMPTY: (STATE, STATE),
    ONGOING: (NONE, NONE),
    PREPARE_COMMIT: (BUSY, BUSY),
    PREPARE_ABORT: (BUSY, BUSY),
    COMPLETE_COMMIT: (STATE, NONE),
    COMPLETE_ABORT: (NONE, STATE),
}

# state: abort at the epoch below (a retry), abort at the stored epoch, and the same for commit.
WITH_BUMP = {
    EMPTY: (FENCED, NONE, FENCED, STATE),
    ONGOING: (FENCED, NONE, FENCED, NONE),
    PREPARE_COMMIT: (BUSY, BUSY, BUSY, BUSY),
    PREPARE_ABORT: (BUSY, BUSY, BUSY, BUSY),
    COMPLETE_COMMIT: (STATE, NONE, NONE, STATE),
    COMPLETE_ABORT: (NONE, NONE, STATE, STATE),
}


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", ALL)
def test_end_at_the_stored_epoch_without_a_bump(status: TransactionStatus, commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2=False)
    decision = ledger.decide_end(producer_id, epoch, commit, tv2=False)
    assert decision.answer.error is WITHOUT_BUMP[status][commit]
    assert bool(decision.records) == (status is ONGOING)


@pytest.mark.parametrize("distance", [-1, 1])
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", ALL)
def test_end_at_another_epoch_without_a_bump_is_fenced(status: TransactionStatus, commit: bool, distance: int) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2=False)
    assert ledger.end(producer_id, epoch + distance, commit, tv2=False).error is FENCED


@pytest.mark.parametrize("is_retry", [True, False])
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", ALL)
def test_end_with_a_bump(status: TransactionStatus, commit: bool, is_retry: bool) -> None:
    """KIP-890: the epoch tells a repeated request from that of the next transaction."""
    ledger, producer_id, epoch = ledger_in(status)
    before = ledger.metadata()
    answer = ledger.end(producer_id, epoch - 1 if is_retry else epoch, commit)
    assert answer.error is WITH_BUMP[status][2 * commit + (not is_retry)]
    if answer.error is not NONE:
        assert (answer.producer_id, answer.producer_epoch, answer.markers) == (-1, -1, None)
        assert ledger.metadata() == before
    elif is_retry:
        assert (answer.producer_id, answer.producer_epoch, answer.markers) == (producer_id, epoch, None)
        assert ledger.metadata() == before
    else:
        assert (answer.producer_id, answer.producer_epoch) == (producer_id, epoch + 1)
        assert answer.markers is not None
        assert answer.markers.partitions == before.partitions
        assert ledger.status() is (PREPARE_COMMIT if commit else PREPARE_ABORT)


@pytest.mark.parametrize("distance", [-2, 1])
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_end_with_a_bump_at_any_other_epoch_is_fenced(status: TransactionStatus, commit: bool, distance: int) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert ledger.end(producer_id, epoch + distance, commit).error is FENCED


@pytest.mark.parametrize("tv2", [False, True])
@pytest.mark.parametrize("status", ALL)
def test_end_by_a_foreign_producer_is_not_mapped(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2)
    expected = BUSY if tv2 and status in (PREPARE_COMMIT, PREPARE_ABORT) else MAPPING
    assert ledger.end(producer_id + 1, epoch, True, tv2).error is expected


@pytest.mark.parametrize("tv2", [False, True])
def test_end_of_an_unknown_id_is_not_mapped(tv2: bool) -> None:
    assert Ledger().end(1, 0, True, tv2).error is MAPPING


@pytest.mark.parametrize("tv2", [False, True])
def test_end_of_an_empty_id_is_an_invalid_request(tv2: bool) -> None:
    assert Ledger().end(1, 0, True, tv2, transactional_id="").error is ErrorCode.invalid_request


@pytest.mark.parametrize("tv2", [False, True])
@pytest.mark.parametrize("status", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_end_while_a_decision_is_pending_waits(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2)
    ledger.hold(ledger.decide_init())
    assert ledger.decide_end(producer_id, epoch, True, tv2).answer.error is BUSY


@pytest.mark.parametrize("commit", [False, True])
def test_markers_without_a_bump_carry_the_epoch_of_the_data(commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING, tv2=False)
    markers = ledger.end(producer_id, epoch, commit, tv2=False).markers
    assert markers is not None
    assert (markers.producer_id, markers.producer_epoch, markers.transaction_version) == (producer_id, epoch, 0)
    assert markers.committed is commit
    ledger.complete()
    assert ledger.metadata().producer_epoch == epoch


@pytest.mark.parametrize("commit", [False, True])
def test_markers_with_a_bump_carry_the_epoch_above_that_of_the_data(commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING)
    markers = ledger.end(producer_id, epoch, commit).markers
    assert markers is not None
    assert (markers.producer_id, markers.producer_epoch, markers.transaction_version) == (producer_id, epoch + 1, 2)
    ledger.complete()
    assert ledger.metadata().producer_epoch == epoch + 1


@pytest.mark.parametrize("status", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_abort_of_nothing_bumps_and_has_no_partitions(status: TransactionStatus) -> None:
    """KIP-890: a producer may always abort; it then knows that its epoch is a new one."""
    ledger, producer_id, epoch = ledger_in(status)
    began_ms = ledger.now_ms
    answer = ledger.end(producer_id, epoch, False)
    assert answer.producer_epoch == epoch + 1
    assert answer.markers is not None
    assert answer.markers.partitions == frozenset()
    assert ledger.metadata().start_ms == began_ms
    ledger.complete()
    assert ledger.status() is COMPLETE_ABORT


def test_end_after_a_bump_by_somebody_else_is_not_a_retry() -> None:
    """The epoch below belongs to a producer that a newer one fenced, when the last transaction ended without a bump."""
    ledger = Ledger()
    zombie = ledger.init()
    heir = ledger.init()
    ledger.add(heir.producer_id, heir.producer_epoch, tv2=False)
    ledger.end(heir.producer_id, heir.producer_epoch, True, tv2=False)
    ledger.complete()
    assert ledger.end(zombie.producer_id, zombie.producer_epoch, True).error is FENCED
    assert ledger.end(zombie.producer_id, zombie.producer_epoch, False).error is FENCED


def test_driver_that_adds_partitions_the_old_way_may_end_the_new_way() -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING, tv2=False)
    answer = ledger.end(producer_id, epoch, True, tv2=True)
    ledger.complete()
    assert (answer.error, answer.producer_epoch) == (NONE, epoch + 1)
    assert ledger.end(producer_id, epoch, True, tv2=True) == type(answer)(NONE, producer_id, epoch + 1)


# The last epoch


@pytest.mark.parametrize("commit", [False, True])
def test_last_epoch_gives_way_to_a_new_producer_id(commit: bool) -> None:
    """KIP-890: markers go out as the old producer with epoch 32767, the producer goes on as a new one with epoch 0."""
    ledger, producer_id, _ = ledger_in(ONGOING)
    ledger.seed(producer_epoch=32766)
    answer = ledger.end(producer_id, 32766, commit)
    assert (answer.producer_id, answer.producer_epoch) == (ledger.next_producer_id - 1, 0)
    assert answer.markers is not None
    assert (answer.markers.producer_id, answer.markers.producer_epoch) == (producer_id, 32767)
    assert ledger.metadata().next_producer_id == answer.producer_id
    ledger.complete()
    metadata = ledger.metadata()
    assert (metadata.producer_id, metadata.producer_epoch) == (answer.producer_id, 0)
    assert (metadata.previous_producer_id, metadata.last_producer_epoch) == (producer_id, 32766)
    assert metadata.next_producer_id == -1


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_repeated_end_at_the_last_epoch_is_told_the_new_producer_id_again(commit: bool, restarts: bool) -> None:
    ledger, producer_id, _ = ledger_in(ONGOING)
    ledger.seed(producer_epoch=32766)
    answer = ledger.end(producer_id, 32766, commit)
    if restarts:
        ledger.restart()
    assert ledger.end(producer_id, 32766, commit).error is BUSY
    ledger.complete()
    again = ledger.end(producer_id, 32766, commit)
    assert (again.error, again.producer_id, again.producer_epoch) == (NONE, answer.producer_id, 0)
    assert ledger.end(producer_id, 32766, not commit).error is STATE


def test_new_producer_id_works_at_once_when_the_markers_are_written() -> None:
    ledger, producer_id, _ = ledger_in(ONGOING)
    ledger.seed(producer_epoch=32766)
    answer = ledger.end(producer_id, 32766, True)
    assert ledger.add(answer.producer_id, 0) is BUSY
    ledger.complete()
    assert ledger.add(answer.producer_id, 0) is NONE
    assert ledger.end(producer_id, 32766, True).error is FENCED


def test_without_a_bump_the_last_epoch_ends_as_any_other() -> None:
    ledger, producer_id, _ = ledger_in(ONGOING, tv2=False)
    ledger.seed(producer_epoch=32766)
    assert ledger.end(producer_id, 32766, True, tv2=False).error is NONE
    ledger.complete()
    assert (ledger.metadata().producer_id, ledger.metadata().producer_epoch) == (producer_id, 32766)


# Pending and settled


def test_id_is_settled_again_only_when_the_transaction_is_complete() -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING)
    coordinator = ledger.coordinator
    assert coordinator.ids.is_idle(TX)
    decision = ledger.decide_end(producer_id, epoch, True)
    ledger.hold(decision)
    assert coordinator.ids.is_pending(TX)
    assert not coordinator.ids.is_idle(TX)
    ledger.apply(decision)
    assert not coordinator.ids.is_pending(TX)
    assert not coordinator.ids.is_idle(TX)
    completion = coordinator.complete(TX, ledger.now_ms)
    assert not coordinator.ids.is_idle(TX)
    ledger.apply(completion)
    assert coordinator.ids.is_idle(TX)


def test_end_that_is_not_appended_leaves_the_transaction_open() -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING)
    assert ledger.decide_end(producer_id, epoch, True).records
    assert ledger.status() is ONGOING
    assert ledger.coordinator.verify(TX, producer_id, epoch, "t", 0) is NONE
    assert ledger.end(producer_id, epoch, True).error is NONE


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("tv2", [False, True])
def test_decided_transaction_is_completed_after_a_restart(tv2: bool, commit: bool) -> None:
    ledger, producer_id, epoch = ledger_in(ONGOING, tv2)
    decided = ledger.end(producer_id, epoch, commit, tv2).markers
    ledger.restart()
    assert ledger.coordinator.pending_completions() == (decided,)
    ledger.complete()
    assert ledger.status() is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert ledger.coordinator.pending_completions() == ()


def test_completion_that_is_being_written_is_not_started_again() -> None:
    ledger, _, _ = ledger_in(PREPARE_COMMIT)
    ledger.hold(ledger.coordinator.complete(TX, ledger.now_ms))
    assert ledger.coordinator.pending_completions() == ()
