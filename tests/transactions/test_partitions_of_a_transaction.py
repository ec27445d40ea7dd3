"""AddPartitionsToTxn, AddOffsetsToTxn, and the question a partition's leader asks for every batch (KIP-890)."""

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TX, Ledger, ledger_in

IDLE = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
LIVING = (*IDLE, TransactionStatus.ONGOING)
ANY = (*LIVING, *DECIDED)
BOTH = pytest.mark.parametrize("tv2", [False, True])


@BOTH
@pytest.mark.parametrize("status", IDLE)
def test_first_partition_begins_the_transaction(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2)
    began_ms = ledger.now_ms
    assert ledger.add(producer_id, epoch, [("t", 3)], tv2) is ErrorCode.none
    metadata = ledger.metadata()
    assert metadata.status is TransactionStatus.ONGOING
    assert metadata.partitions == {("t", 3)}
    assert metadata.start_ms == metadata.last_update_ms == began_ms
    assert metadata.client_transaction_version == (2 if tv2 else 0)


def test_another_partition_joins_and_the_transaction_keeps_its_beginning() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    began_ms = ledger.metadata().start_ms
    assert ledger.add(producer_id, epoch, [("u", 1), ("t", 0)]) is ErrorCode.none
    assert ledger.metadata().partitions == {("t", 0), ("u", 1)}
    assert ledger.metadata().start_ms == began_ms


def test_partitions_that_are_already_in_write_nothing() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    decision = ledger.coordinator.add_partitions(TX, producer_id, epoch, [("t", 0)], ledger.now_ms, True)
    assert decision.records == ()
    assert decision.answer is ErrorCode.none
    assert ledger.coordinator.ids.is_idle(TX)


@BOTH
@pytest.mark.parametrize("status", LIVING)
def test_foreign_producer_id_is_refused(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert ledger.add(producer_id + 1, epoch, tv2=tv2) is ErrorCode.invalid_producer_id_mapping


@BOTH
@pytest.mark.parametrize("distance", [-1, 1])
@pytest.mark.parametrize("status", LIVING)
def test_other_epoch_is_fenced(status: TransactionStatus, distance: int, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert ledger.add(producer_id, epoch + distance, tv2=tv2) is ErrorCode.producer_fenced


@BOTH
@pytest.mark.parametrize("status", DECIDED)
def test_partition_for_a_decided_transaction_waits_whoever_asks(status: TransactionStatus, tv2: bool) -> None:
    """The next transaction may already be asked for, under an id and epoch that hold once the markers are written."""
    ledger, producer_id, epoch = ledger_in(status)
    for wanted_id, wanted_epoch in ((producer_id, epoch), (producer_id + 1, 0), (producer_id, epoch - 1)):
        assert ledger.add(wanted_id, wanted_epoch, tv2=tv2) is ErrorCode.concurrent_transactions


@pytest.mark.parametrize("status", LIVING)
def test_partition_while_a_decision_is_pending_waits(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    ledger.hold(ledger.coordinator.add_partitions(TX, producer_id, epoch, [("u", 0)], ledger.now_ms, True))
    assert ledger.add(producer_id, epoch, [("u", 1)]) is ErrorCode.concurrent_transactions


def test_unknown_id_is_not_mapped() -> None:
    assert Ledger().add(1, 0) is ErrorCode.invalid_producer_id_mapping


def test_empty_id_is_an_invalid_request() -> None:
    assert Ledger().add(1, 0, transactional_id="") is ErrorCode.invalid_request


# verify


def verify(ledger: Ledger, producer_id: int, epoch: int, partition: int = 0) -> ErrorCode:
    return ledger.coordinator.verify(TX, producer_id, epoch, "t", partition)


def test_partition_of_the_open_transaction_is_verified() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    assert verify(ledger, producer_id, epoch) is ErrorCode.none


def test_partition_outside_the_open_transaction_makes_it_abortable() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    assert verify(ledger, producer_id, epoch, 1) is ErrorCode.transaction_abortable


@pytest.mark.parametrize("status", IDLE)
def test_without_an_open_transaction_nothing_is_verified(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert verify(ledger, producer_id, epoch) is ErrorCode.transaction_abortable


@pytest.mark.parametrize("status", ANY)
def test_verification_refuses_a_foreign_producer_id(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert verify(ledger, producer_id + 1, epoch) is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("status", ANY)
def test_verification_fences_an_old_epoch(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert verify(ledger, producer_id, epoch - 1) is ErrorCode.producer_fenced


@pytest.mark.parametrize("tv2", [False, True])
@pytest.mark.parametrize("status", DECIDED)
def test_verification_waits_while_markers_are_on_their_way(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2)
    assert verify(ledger, producer_id, epoch) is ErrorCode.concurrent_transactions


@BOTH
@pytest.mark.parametrize("commit", [False, True])
def test_nothing_is_verified_from_the_moment_the_end_is_decided(commit: bool, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.ONGOING)
    ledger.hold(ledger.decide_end(producer_id, epoch, commit, tv2))
    assert verify(ledger, producer_id, epoch) is ErrorCode.concurrent_transactions


def test_verification_of_an_unknown_id_is_not_mapped() -> None:
    assert verify(Ledger(), 1, 0) is ErrorCode.invalid_producer_id_mapping
