"""What the coordinator tells whoever asked."""

from __future__ import annotations

from typing import NamedTuple

from oncelog.transactions.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition, TransactionMetadata
from oncelog.wire import ErrorCode


class MarkersToSend(NamedTuple):
    """A decided transaction: one marker with this producer id and epoch goes to each partition, then it is complete.

    `partitions` holds data partitions and partitions of `__consumer_offsets`; it is empty when nothing was added.
    `transaction_version` 2 says that the epoch is above that of the data.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class InitProducerIdAnswer(NamedTuple):
    """`markers` comes with `concurrent_transactions`, when an open transaction had to be aborted first."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    markers: MarkersToSend | None = None


class EndTransactionAnswer(NamedTuple):
    """The producer id and epoch are those of the producer's next transaction, -1 where there is an error.

    Without `markers` there is nothing more to do: it is an error, or the repetition of a request that succeeded.
    """

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    markers: MarkersToSend | None = None


class DescribedTransaction(NamedTuple):
    error: ErrorCode
    metadata: TransactionMetadata | None = None


class ListedTransaction(NamedTuple):
    """`unknown_states` holds the state filters that name no state."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[TransactionMetadata, ...] = ()


def markers_of(metadata: TransactionMetadata, *, committed: bool) -> MarkersToSend:
    return MarkersToSend(
        metadata.transactional_id,
        metadata.producer_id,
        metadata.producer_epoch,
        committed,
        metadata.client_transaction_version,
        metadata.partitions,
    )
