"""Where a transaction is and how it ended: the values that operators' questions about transactions go in and out with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from oncelog.client.values import ProducerState, TopicPartition, TransactionDescription


class TransactionStateName(StrEnum):
    """Where a transaction is, as DescribeTransactions names it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


DECIDED_STATES = frozenset(
    {TransactionStateName.PREPARE_COMMIT, TransactionStateName.PREPARE_ABORT, TransactionStateName.PREPARE_EPOCH_FENCE}
)
"""How it ends is settled, and not every partition has its marker."""
OPEN_STATES = DECIDED_STATES | {TransactionStateName.ONGOING}
"""Those in which readers wait. The start of a transaction is told in others too: it is then the last one's."""


class TransactionEnd(StrEnum):
    """What became of a transaction that somebody else than its producer ended."""

    ABORTED = "aborted"
    COMMITTED = "committed"
    NOTHING_OPEN = "nothing open"


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """How a transaction ended; `description` is what its coordinator said last.

    While that is in a Prepare state, readers of some partition still wait for the marker, and get it without anybody's doing.
    Until its producer `is_fenced` it may learn that its transaction was aborted, and go on with the next one.
    """

    end: TransactionEnd
    description: TransactionDescription
    is_fenced: bool = False

    @property
    def is_complete(self) -> bool:
        return self.description.state not in DECIDED_STATES


@dataclass(frozen=True, slots=True)
class HangingProducer:
    """A producer whose transaction is open in a partition although its coordinator does not have it open there (KIP-664).

    `transactional_id` is whose producer id it is, where a coordinator still knows.
    """

    partition: TopicPartition
    state: ProducerState
    transactional_id: str | None
