"""What each legal move writes: from what a transactional id was to what it becomes."""

from __future__ import annotations

from oncelog.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    IDLE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PRODUCER_EPOCH_MAX,
    TopicPartition,
    TransactionMetadata,
    is_legal,
)

# From this transaction version on, every transaction has an epoch of its own (KIP-890).
EPOCH_PER_TRANSACTION_VERSION = 2


def has_epoch_per_transaction(transaction_version: int) -> bool:
    """Whether no two transactions of a producer share an epoch (KIP-890)."""
    return transaction_version >= EPOCH_PER_TRANSACTION_VERSION


def unknown_id(transactional_id: str, producer_id: int, timeout_ms: int) -> TransactionMetadata:
    """What is known of an id before its first record. The epoch -1 makes the first bump give 0."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        status=EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=NO_TIMESTAMP,
        client_transaction_version=0,
    )


def initialized(
    before: TransactionMetadata, producer_id: int, producer_epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """InitProducerId: an empty transactional id in the hands of `producer_id` and `producer_epoch`."""
    assert is_legal(before.status, EMPTY), before
    return before._replace(
        producer_id=producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        status=EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def with_partitions(
    before: TransactionMetadata, added: frozenset[TopicPartition], client_transaction_version: int, now_ms: int
) -> TransactionMetadata:
    assert is_legal(before.status, ONGOING), before
    return before._replace(
        status=ONGOING,
        partitions=before.partitions | added,
        start_ms=before.start_ms if before.status is ONGOING else now_ms,
        last_update_ms=now_ms,
        client_transaction_version=client_transaction_version,
    )


def prepared(before: TransactionMetadata, committed: bool, now_ms: int) -> TransactionMetadata:
    """EndTxn without an epoch per transaction: the epoch stays."""
    return _decided(before, committed, before.producer_epoch, before.last_producer_epoch, NO_PRODUCER_ID, 0, now_ms)


def prepared_with_bump(
    before: TransactionMetadata, committed: bool, next_producer_id: int, now_ms: int
) -> TransactionMetadata:
    """EndTxn with an epoch per transaction: the markers carry the epoch above that of the data."""
    return _decided(
        before,
        committed,
        before.producer_epoch + 1,
        before.producer_epoch,
        next_producer_id,
        EPOCH_PER_TRANSACTION_VERSION,
        now_ms,
    )


def fenced(before: TransactionMetadata, transaction_version: int, now_ms: int) -> TransactionMetadata:
    """An abort that no client asked for. The epoch moves first, so that the producer of the transaction cannot go on.

    Under an epoch per transaction the move counts as that transaction's own bump, and its producer's EndTxn as a retry.
    """
    assert is_legal(before.status, PREPARE_EPOCH_FENCE), before
    bumps = has_epoch_per_transaction(transaction_version)
    return _decided(
        before,
        False,
        min(before.producer_epoch + 1, PRODUCER_EPOCH_MAX),
        before.producer_epoch if bumps else NO_PRODUCER_EPOCH,
        NO_PRODUCER_ID,
        EPOCH_PER_TRANSACTION_VERSION if bumps else 0,
        now_ms,
    )


def completed(before: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Every marker is written. A producer id that ran out of epochs gives way to the next one here."""
    status = COMPLETE_COMMIT if before.status is PREPARE_COMMIT else COMPLETE_ABORT
    assert is_legal(before.status, status), before
    rotates = before.next_producer_id != NO_PRODUCER_ID
    return before._replace(
        producer_id=before.next_producer_id if rotates else before.producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0 if rotates else before.producer_epoch,
        status=status,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _decided(
    before: TransactionMetadata,
    committed: bool,
    producer_epoch: int,
    last_epoch: int,
    next_producer_id: int,
    client_transaction_version: int,
    now_ms: int,
) -> TransactionMetadata:
    status = PREPARE_COMMIT if committed else PREPARE_ABORT
    assert is_legal(before.status, status), before
    return before._replace(
        next_producer_id=next_producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_epoch,
        status=status,
        # An abort of nothing has no beginning of its own, and the log wants one.
        start_ms=now_ms if before.status in IDLE else before.start_ms,
        last_update_ms=now_ms,
        client_transaction_version=client_transaction_version,
    )
