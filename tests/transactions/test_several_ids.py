"""A coordinator with many transactional ids: each is decided about alone."""

from __future__ import annotations

import pytest

from oncelog.transactions import TransactionStatus
from oncelog.transactions.coordinator import ID_EXPIRATION_MS
from oncelog.transactions.state import LAST_CLIENT_EPOCH
from oncelog.wire import ErrorCode
from tests.transactions.ledger import TIMEOUT_MS, Ledger, ledger_in

NAMES = ("first", "second", "third")


@pytest.fixture
def three() -> Ledger:
    """Three ids, with the producer ids 1000, 1001 and 1002."""
    ledger = Ledger()
    for name in NAMES:
        ledger.init(transactional_id=name)
    return ledger


def add_to(ledger: Ledger, name: str) -> None:
    metadata = ledger.metadata(name)
    assert ledger.add(metadata.producer_id, metadata.producer_epoch, transactional_id=name) is ErrorCode.none


def test_transaction_times_out_beside_ids_that_are_idle(three: Ledger) -> None:
    add_to(three, "second")
    (decision,) = three.coordinator.abort_timed_out(three.now_ms + TIMEOUT_MS)
    assert [record.transactional_id for record in decision.records] == ["second"]
    assert decision.answer.error is ErrorCode.none


def test_id_expires_beside_ids_with_a_transaction(three: Ledger) -> None:
    add_to(three, "first")
    now_ms = three.now_ms + ID_EXPIRATION_MS
    records = [record for decision in three.coordinator.expire_ids(now_ms) for record in decision.records]
    assert [record.transactional_id for record in records] == ["second", "third"]
    assert {record.timestamp_ms for record in records} == {now_ms}


def test_what_is_decided_in_one_partition_of_the_log_is_found_there_alone(three: Ledger) -> None:
    for name in NAMES:
        add_to(three, name)
        metadata = three.metadata(name)
        three.end(metadata.producer_id, metadata.producer_epoch, True, transactional_id=name)
    coordinator = three.coordinator
    partitions = {name: coordinator.partition_for(name) for name in NAMES}
    assert len(set(partitions.values())) == 3
    for name, partition in partitions.items():
        assert [one.transactional_id for one in coordinator.pending_completions(partition)] == [name]
    assert len(coordinator.pending_completions()) == 3


def test_producer_id_leads_to_the_id_that_has_it_now_and_not_to_one_that_had_it() -> None:
    ledger, producer_id, _ = ledger_in(TransactionStatus.ONGOING)
    ledger.seed(producer_epoch=LAST_CLIENT_EPOCH)
    answer = ledger.end(producer_id, LAST_CLIENT_EPOCH, True)
    ledger.complete()
    ids = ledger.coordinator.ids
    owner = ids.owner_of(answer.producer_id)
    assert answer.producer_id != producer_id
    assert owner is not None
    assert owner.transactional_id == "tx-1"
    assert ids.owner_of(producer_id) is None


def test_partition_that_is_unloaded_takes_its_ids_with_it(three: Ledger) -> None:
    ids = three.coordinator.ids
    three.hold(three.decide_init(transactional_id="first"))
    partition = three.coordinator.partition_for("first")
    assert ids.unload(partition) == ["first"]
    assert ids.metadata("first") is None
    assert ids.owner_of(1000) is None
    assert not ids.is_pending("first")
    assert ids.transactions_of(partition) == []
    assert {one.transactional_id for one in ids.transactions()} == {"second", "third"}


def test_id_that_expired_is_no_longer_in_its_partition(three: Ledger) -> None:
    for decision in three.coordinator.expire_ids(three.now_ms + ID_EXPIRATION_MS):
        three.apply(decision)
    partitions = [three.coordinator.partition_for(name) for name in NAMES]
    assert [list(three.coordinator.ids.transactions_of(partition)) for partition in partitions] == [[], [], []]


def test_record_that_will_not_be_appended_leaves_the_id_as_it_was(three: Ledger) -> None:
    three.hold(three.decide_init(transactional_id="first"))
    assert three.decide_init(transactional_id="first").answer.error is ErrorCode.concurrent_transactions
    three.coordinator.ids.let_go("first")
    answer = three.init(transactional_id="first")
    assert (answer.error, answer.producer_epoch) == (ErrorCode.none, 1)
