"""The transaction coordinator: states, decisions, replay, and what its log holds."""

from oncelog.transactions.coordinator import TransactionCoordinator
from oncelog.transactions.records import TransactionRecord, decode, encode, record_version
from oncelog.transactions.state import (
    DECIDED,
    ONGOING,
    TRANSITIONS,
    DescribedTransaction,
    EndTransactionAnswer,
    InitProducerIdAnswer,
    ListedTransaction,
    MarkersToSend,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)
from oncelog.transactions.transactional_ids import listing
from oncelog.transactions.transitions import has_epoch_per_transaction

__all__ = [
    "DECIDED",
    "ONGOING",
    "TRANSITIONS",
    "DescribedTransaction",
    "EndTransactionAnswer",
    "InitProducerIdAnswer",
    "ListedTransaction",
    "MarkersToSend",
    "TopicPartition",
    "TransactionCoordinator",
    "TransactionMetadata",
    "TransactionRecord",
    "TransactionStatus",
    "decode",
    "encode",
    "has_epoch_per_transaction",
    "listing",
    "record_version",
]
