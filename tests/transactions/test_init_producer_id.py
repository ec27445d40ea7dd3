"""InitProducerId: KIP-98 §4.1, KIP-360."""

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.wire import ErrorCode
from tests.transactions.ledger import FIRST_PRODUCER_ID, TIMEOUT_MS, TX, Ledger, ledger_in

IDLE = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


def test_first_producer_of_an_id_gets_epoch_0() -> None:
    ledger = Ledger()
    answer = ledger.init()
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, FIRST_PRODUCER_ID, 0)
    assert ledger.status() is TransactionStatus.EMPTY
    assert ledger.metadata().start_ms == -1


def test_second_producer_gets_the_same_id_and_the_next_epoch() -> None:
    ledger = Ledger()
    first, second = ledger.init(), ledger.init()
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


def test_producer_without_a_transactional_id_gets_a_new_id_and_nothing_is_written() -> None:
    ledger = Ledger()
    decision = ledger.decide_init(transactional_id=None)
    assert decision.records == ()
    assert (decision.answer.producer_id, decision.answer.producer_epoch) == (FIRST_PRODUCER_ID, 0)


def test_empty_transactional_id_is_an_invalid_request() -> None:
    assert Ledger().init(transactional_id="").error is ErrorCode.invalid_request


@pytest.mark.parametrize(("producer_id", "epoch"), [(7, -1), (-1, 7)])
@pytest.mark.parametrize("transactional_id", [TX, None])
def test_producer_id_without_epoch_or_epoch_without_id_is_an_invalid_request(
    producer_id: int, epoch: int, transactional_id: str | None
) -> None:
    assert Ledger().init(producer_id, epoch, transactional_id).error is ErrorCode.invalid_request


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeout_outside_the_limits_is_refused(timeout_ms: int) -> None:
    ledger = Ledger()
    decision = ledger.coordinator.init_producer_id(TX, timeout_ms, -1, -1, ledger.now_ms, ledger.allocate)
    assert decision.answer.error is ErrorCode.invalid_transaction_timeout


def test_timeout_of_the_latest_producer_counts() -> None:
    ledger = Ledger()
    ledger.init()
    ledger.apply(ledger.coordinator.init_producer_id(TX, 900_000, -1, -1, ledger.now_ms, ledger.allocate))
    assert ledger.metadata().timeout_ms == 900_000


@pytest.mark.parametrize("status", [*IDLE, TransactionStatus.ONGOING])
def test_request_while_another_is_pending_is_told_to_come_back(status: TransactionStatus) -> None:
    ledger, _, _ = ledger_in(status)
    ledger.hold(ledger.decide_init())
    assert ledger.decide_init().answer.error is ErrorCode.concurrent_transactions
    assert ledger.decide_init().records == ()


@pytest.mark.parametrize("status", DECIDED)
def test_request_while_markers_are_on_their_way_is_told_to_come_back(status: TransactionStatus) -> None:
    ledger, _, _ = ledger_in(status)
    decision = ledger.decide_init()
    assert decision.answer.error is ErrorCode.concurrent_transactions
    assert decision.answer.markers is None
    assert decision.records == ()


@pytest.mark.parametrize("status", [*IDLE, *DECIDED, TransactionStatus.ONGOING])
def test_foreign_producer_id_is_fenced_in_every_state(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    assert ledger.init(producer_id + 500, epoch).error is ErrorCode.producer_fenced


@pytest.mark.parametrize("status", IDLE)
@pytest.mark.parametrize("tv2", [False, True])
def test_new_producer_bumps_an_idle_id_and_empties_it(status: TransactionStatus, tv2: bool) -> None:
    ledger, producer_id, epoch = ledger_in(status, tv2)
    answer = ledger.init()
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, producer_id, epoch + 1)
    assert ledger.status() is TransactionStatus.EMPTY
    assert ledger.metadata().start_ms == -1


@pytest.mark.parametrize("status", IDLE)
def test_producer_that_names_its_epoch_gets_the_next_one(status: TransactionStatus) -> None:
    ledger, producer_id, epoch = ledger_in(status)
    answer = ledger.init(producer_id, epoch)
    assert (answer.error, answer.producer_epoch) == (ErrorCode.none, epoch + 1)


def test_repeated_bump_whose_answer_was_lost_gets_the_same_answer() -> None:
    """KIP-360: a request with the epoch before the last bump is a retry of that bump."""
    ledger, producer_id, epoch = ledger_in(TransactionStatus.EMPTY)
    first, again = ledger.init(producer_id, epoch), ledger.init(producer_id, epoch)
    assert first == again
    assert ledger.metadata().producer_epoch == epoch + 1


def test_bump_is_fenced_once_another_producer_took_over() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.EMPTY)
    ledger.init()
    assert ledger.init(producer_id, epoch).error is ErrorCode.producer_fenced


def test_repeated_bump_is_fenced_after_a_restart() -> None:
    """The epoch before the last bump is not in the log."""
    ledger, producer_id, epoch = ledger_in(TransactionStatus.EMPTY)
    ledger.init(producer_id, epoch)
    ledger.restart()
    assert ledger.init(producer_id, epoch).error is ErrorCode.producer_fenced


@pytest.mark.parametrize("distance", [-2, 1, 30])
def test_any_other_epoch_is_fenced(distance: int) -> None:
    ledger, producer_id, _ = ledger_in(TransactionStatus.EMPTY)
    ledger.seed(producer_epoch=10)
    assert ledger.init(producer_id, 10 + distance).error is ErrorCode.producer_fenced


def test_producer_of_a_forgotten_id_starts_again_with_a_new_producer_id() -> None:
    ledger = Ledger()
    answer = ledger.init(77, 5)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.none, FIRST_PRODUCER_ID, 0)


@pytest.mark.parametrize("names_itself", [False, True])
@pytest.mark.parametrize("transaction_version", [1, 2])
def test_open_transaction_is_aborted_first_and_the_producer_comes_back(
    names_itself: bool, transaction_version: int
) -> None:
    """KIP-98 §4.1: an open transaction of an earlier producer is aborted before the new producer may begin."""
    ledger = Ledger(transaction_version)
    owner = ledger.init()
    ledger.add(owner.producer_id, owner.producer_epoch, [("t", 0), ("t", 1)])
    answer = ledger.init(*((owner.producer_id, owner.producer_epoch) if names_itself else ()))
    assert answer.error is ErrorCode.concurrent_transactions
    assert answer.markers is not None
    assert not answer.markers.committed
    assert answer.markers.producer_epoch == owner.producer_epoch + 1
    assert answer.markers.partitions == {("t", 0), ("t", 1)}
    assert ledger.status() is TransactionStatus.PREPARE_ABORT
    ledger.complete()
    answer = ledger.init()
    assert (answer.error, answer.producer_epoch) == (ErrorCode.none, owner.producer_epoch + 2)


@pytest.mark.parametrize("tv2", [False, True])
def test_zombie_that_names_an_old_epoch_cannot_abort_the_transaction_of_its_heir(tv2: bool) -> None:
    ledger = Ledger()
    zombie = ledger.init()
    heir = ledger.init()
    ledger.add(heir.producer_id, heir.producer_epoch, tv2=tv2)
    decision = ledger.decide_init(zombie.producer_id, zombie.producer_epoch)
    assert decision.answer.error is ErrorCode.producer_fenced
    assert decision.records == ()
    assert ledger.status() is TransactionStatus.ONGOING
    assert ledger.end(heir.producer_id, heir.producer_epoch, True, tv2).error is ErrorCode.none


@pytest.mark.parametrize("names_itself", [False, True])
def test_exhausted_epoch_gives_a_new_producer_id(names_itself: bool) -> None:
    """KIP-360: an epoch of 32766 or more is never bumped; the producer gets another id, with epoch 0."""
    ledger, producer_id, _ = ledger_in(TransactionStatus.EMPTY)
    ledger.seed(producer_epoch=32766)
    answer = ledger.init(*((producer_id, 32766) if names_itself else ()))
    assert (answer.error, answer.producer_epoch) == (ErrorCode.none, 0)
    assert answer.producer_id != producer_id
    assert ledger.metadata().previous_producer_id == producer_id
    assert ledger.metadata().last_producer_epoch == (32766 if names_itself else -1)


def test_repeated_rotation_whose_answer_was_lost_gets_the_same_answer() -> None:
    ledger, producer_id, _ = ledger_in(TransactionStatus.EMPTY)
    ledger.seed(producer_epoch=32766)
    assert ledger.init(producer_id, 32766) == ledger.init(producer_id, 32766)


def test_producer_of_an_exhausted_id_that_was_replaced_is_fenced() -> None:
    ledger, producer_id, _ = ledger_in(TransactionStatus.EMPTY)
    ledger.seed(producer_epoch=32766)
    ledger.init()
    assert ledger.init(producer_id, 32766).error is ErrorCode.producer_fenced


def test_epoch_32767_is_never_given_to_a_producer() -> None:
    """The highest epoch belongs to the coordinator, which must be able to fence whoever has the one below."""
    ledger, producer_id, _ = ledger_in(TransactionStatus.ONGOING)
    ledger.seed(producer_epoch=32766)
    ledger.init()
    ledger.complete()
    assert ledger.metadata().producer_epoch == 32767
    assert ledger.init(producer_id, 32766).error is ErrorCode.producer_fenced
    assert ledger.end(producer_id, 32766, False).error is ErrorCode.producer_fenced
    answer = ledger.init()
    assert answer.producer_id != producer_id
    assert answer.producer_epoch == 0


def test_decision_that_is_not_appended_leaves_the_id_as_it_was() -> None:
    ledger, producer_id, epoch = ledger_in(TransactionStatus.EMPTY)
    before = ledger.metadata()
    assert ledger.decide_init().records
    assert ledger.metadata() == before
    assert ledger.init(producer_id, epoch).error is ErrorCode.none


def test_timeout_is_the_request_s() -> None:
    ledger = Ledger()
    ledger.init()
    assert ledger.metadata().timeout_ms == TIMEOUT_MS
