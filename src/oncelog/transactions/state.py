"""What a transactional id can be doing, and everything the coordinator remembers about it.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
PRODUCER_EPOCH_MAX = 32767
# A client never gets the highest epoch: it is kept so that whoever holds the one below can still be fenced (KIP-360).
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
