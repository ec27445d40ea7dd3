"""Which requests repeat one whose answer was lost, and which come from a producer that was fenced.

The same bytes may be either. What tells them apart is what the transactional id became since: only a producer whose own
request was carried out can know the epoch, or the producer id, just below the stored one.
"""

from __future__ import annotations

from oncelog.transactions.state import LAST_CLIENT_EPOCH, NO_PRODUCER_EPOCH, TransactionMetadata
from oncelog.transactions.transitions import EPOCH_PER_TRANSACTION_VERSION


def may_ask_for_bump(before: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """KIP-360: the producer of record, one that saw its id rotate away without the answer, or anyone for a new id."""
    return (
        before.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == before.producer_id
        or (producer_id == before.previous_producer_id and producer_epoch >= LAST_CLIENT_EPOCH)
    )


def is_bump_retry(before: TransactionMetadata, producer_epoch: int) -> bool:
    """Whether this EndTxn v5 was answered before, and the answer was lost.

    Only a transaction that ended with a bump has such an answer: else the epoch below is that of a fenced producer. And
    nobody is told the highest epoch.
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
