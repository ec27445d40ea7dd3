"""The legal moves of a transactional id: the metadata after each, the retries that repeat one, and its line in the log."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.coordination.names import first_of
from oncelog.transactions.records import TransactionRecord
from oncelog.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DECIDED,
    EMPTY,
    IDLE,
    LAST_CLIENT_EPOCH,
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
    """True if each transaction of a producer has an epoch of its own (KIP-890)."""
    return transaction_version >= EPOCH_PER_TRANSACTION_VERSION


def unknown_id(transactional_id: str, producer_id: int, timeout_ms: int) -> TransactionMetadata:
    """The metadata of an id before its first record. The epoch -1 makes the first bump give 0."""
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


# The same bytes may repeat a request whose answer was lost, or come from a fenced producer. Only a producer whose own
# request was carried out can know the epoch, or the producer id, just below the stored one.
def may_ask_for_bump(before: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """KIP-360: the producer of record, one that saw its id rotate away without the answer, or anyone for a new id."""
    return (
        before.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == before.producer_id
        or (producer_id == before.previous_producer_id and producer_epoch >= LAST_CLIENT_EPOCH)
    )


def is_bump_retry(before: TransactionMetadata, producer_epoch: int) -> bool:
    """True if this EndTxn v5 was answered before, and the answer was lost.

    Only a transaction that ended with a bump has such an answer: else the epoch below is that of a fenced producer.
    No client is given the highest epoch.
    """
    return (
        before.client_transaction_version >= EPOCH_PER_TRANSACTION_VERSION
        and before.producer_epoch == producer_epoch + 1
        and before.producer_epoch <= LAST_CLIENT_EPOCH
    )


def is_overflow_retry(before: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """The same, when the lost answer named a new producer id because the epochs of the old one had run out."""
    return (
        before.client_transaction_version >= EPOCH_PER_TRANSACTION_VERSION
        and before.previous_producer_id == producer_id
        and producer_epoch == LAST_CLIENT_EPOCH
        and before.producer_epoch == 0
    )


def news(before: TransactionMetadata | None, record: TransactionRecord) -> str | None:
    """Say what the transactional id does that it did not do `before`; None where its transaction is what it was."""
    after = record.metadata
    if after is None:
        return None
    producer = f"producer id {after.producer_id}, epoch {after.producer_epoch}"
    if after.status is ONGOING:
        is_open = before is not None and before.status is ONGOING
        known = before.partitions if before is not None and is_open else frozenset()
        added = after.partitions - known
        if not is_open:
            return f"a transaction begins with {_named(added)}, {producer}"
        return f"its transaction has {_named(added)}, too" if added else None
    if after.status in DECIDED:
        end = "committed" if after.status is PREPARE_COMMIT else "aborted"
        count = len(after.partitions)
        return f"its transaction in {count} partitions is to be {end} ({after.status.label}), {producer}"
    return None


def _named(partitions: Collection[TopicPartition]) -> str:
    return first_of([f"{topic}-{index}" for topic, index in sorted(partitions)])
