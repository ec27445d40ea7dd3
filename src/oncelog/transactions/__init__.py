"""The transaction coordinator: states, decisions, replay, and what its log holds."""

from oncelog.transactions.answers import (
    EndTransactionAnswer,
    InitProducerIdAnswer,
    MarkersToSend,
    TransactionDescription,
    TransactionListing,
)
from oncelog.transactions.coordinator import TransactionCoordinator
from oncelog.transactions.records import TransactionRecord, decode, encode, record_version
from oncelog.transactions.state import (
    DECIDED,
    ONGOING,
    TRANSITIONS,
    TopicPartition,
    TransactionMetadata,
    TransactionStatus,
)
from oncelog.transactions.transitions import has_epoch_per_transaction

__all__ = [
    "DECIDED",
    "ONGOING",
    "TRANSITIONS",
    "EndTransactionAnswer",
    "InitProducerIdAnswer",
    "MarkersToSend",
    "TopicPartition",
    "TransactionCoordinator",
    "TransactionDescription",
    "TransactionListing",
    "TransactionMetadata",
    "TransactionRecord",
    "TransactionStatus",
    "decode",
    "encode",
    "has_epoch_per_transaction",
    "record_version",
]
