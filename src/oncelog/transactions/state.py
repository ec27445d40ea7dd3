"""The states of a transactional id, its metadata, and the answers of the coordinator.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug. The page of the documentation is written
from it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from oncelog.wire import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
PRODUCER_EPOCH_MAX = 32767
# A client never gets the highest epoch: it is kept to fence the producer that holds the one below (KIP-360).
LAST_CLIENT_EPOCH = PRODUCER_EPOCH_MAX - 1
NO_TIMESTAMP = -1

TopicPartition = tuple[str, int]


class TransactionStatus(IntEnum):
    """The numbers are those of the transaction log, the labels those of DescribeTransactions and ListTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]

    @classmethod
    def from_label(cls, label: str) -> TransactionStatus | None:
        return _BY_LABEL.get(label)


_LABELS = {status: "".join(word.capitalize() for word in status.name.split("_")) for status in TransactionStatus}
_BY_LABEL = {label: status for status, label in _LABELS.items()}

EMPTY = TransactionStatus.EMPTY
ONGOING = TransactionStatus.ONGOING
PREPARE_COMMIT = TransactionStatus.PREPARE_COMMIT
PREPARE_ABORT = TransactionStatus.PREPARE_ABORT
COMPLETE_COMMIT = TransactionStatus.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionStatus.COMPLETE_ABORT
DEAD = TransactionStatus.DEAD
PREPARE_EPOCH_FENCE = TransactionStatus.PREPARE_EPOCH_FENCE

IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
DECIDED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

# (from, to) -> what moves a transactional id along that edge.
TRANSITIONS: dict[tuple[TransactionStatus, TransactionStatus], str] = {
    (EMPTY, EMPTY): "InitProducerId",
    (COMPLETE_COMMIT, EMPTY): "InitProducerId",
    (COMPLETE_ABORT, EMPTY): "InitProducerId",
    (EMPTY, ONGOING): "first partition",
    (COMPLETE_COMMIT, ONGOING): "first partition",
    (COMPLETE_ABORT, ONGOING): "first partition",
    (ONGOING, ONGOING): "another partition",
    (ONGOING, PREPARE_COMMIT): "EndTxn commit",
    (ONGOING, PREPARE_ABORT): "EndTxn abort",
    (ONGOING, PREPARE_EPOCH_FENCE): "timeout, or a new producer",
    (PREPARE_EPOCH_FENCE, PREPARE_ABORT): "in the same step",
    (EMPTY, PREPARE_ABORT): "EndTxn v5 abort, nothing added",
    (COMPLETE_COMMIT, PREPARE_ABORT): "EndTxn v5 abort, nothing added",
    (COMPLETE_ABORT, PREPARE_ABORT): "EndTxn v5 abort, nothing added",
    (PREPARE_COMMIT, COMPLETE_COMMIT): "all markers written",
    (PREPARE_ABORT, COMPLETE_ABORT): "all markers written",
    (EMPTY, DEAD): "id expired",
    (COMPLETE_COMMIT, DEAD): "id expired",
    (COMPLETE_ABORT, DEAD): "id expired",
}


def is_legal(before: TransactionStatus, after: TransactionStatus) -> bool:
    return (before, after) in TRANSITIONS


class TransactionMetadata(NamedTuple):
    """One transactional id, as its last record in the transaction log tells it.

    `last_producer_epoch` alone is not in that record: it is the epoch before the last bump while this process lives,
    and -1 after a restart. Times are milliseconds since the epoch; `start_ms` is -1 when nothing was ever begun.
    """

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: frozenset[TopicPartition]
    start_ms: int
    last_update_ms: int
    client_transaction_version: int

    @property
    def epoch_is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH


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


_MEANINGS = {
    TransactionStatus.EMPTY: "A producer has the id, and has begun nothing with it.",
    TransactionStatus.ONGOING: "At least one partition, or one group's offsets, is in the open transaction.",
    TransactionStatus.PREPARE_COMMIT: "The transaction is committed, whatever happens. Its markers are being written.",
    TransactionStatus.PREPARE_ABORT: "The transaction is aborted, whatever happens. Its markers are being written.",
    TransactionStatus.COMPLETE_COMMIT: "Every commit marker is written. The next transaction can begin.",
    TransactionStatus.COMPLETE_ABORT: "Every abort marker is written. The next transaction can begin.",
    TransactionStatus.DEAD: "The id is being forgotten. Never in the log: a record without a value says it.",
    TransactionStatus.PREPARE_EPOCH_FENCE: "The coordinator ends the transaction itself, epoch first. Never in the log.",
}

_INTRODUCTION = """\
# Transaction states

The states of a transactional id. The numbers are those of the `__transaction_state` log, the names those that
DescribeTransactions and ListTransactions answer. A move that is not in the diagram cannot happen: a request that asks
for one gets an error.

This page is generated from the transition table in `oncelog.transactions.state`.
"""

_CLOSING = """\
While a transaction is in one of the two Prepare states, and while a record about its id is on the way to the log, every
other request for the id is answered `CONCURRENT_TRANSACTIONS`, which clients retry.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join((_INTRODUCTION, state_diagram(), state_table(), _CLOSING))


def state_diagram() -> str:
    edges = [f"    [*] --> {EMPTY.label}: InitProducerId of an unknown id"]
    edges += (f"    {before.label} --> {after.label}: {reason}" for (before, after), reason in TRANSITIONS.items())
    edges.append(f"    {DEAD.label} --> [*]")
    return "\n".join(("```mermaid", "stateDiagram-v2", *edges, "```", ""))


def state_table() -> str:
    rows = [f"| {status.value} | {status.label} | {_MEANINGS[status]} |" for status in TransactionStatus]
    return "\n".join(("| number | name | meaning |", "|---|---|---|", *rows, ""))
