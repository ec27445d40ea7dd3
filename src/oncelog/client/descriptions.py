"""Topics, groups and transactions as brokers describe them.

They hold error codes, which are slow to load with the rest of the wire; most of Spark's processes need only `values`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from oncelog.client.values import Address, ProducerState, TopicPartition, TransactionDescription
from oncelog.wire import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as Metadata describes it; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    error: ErrorCode = ErrorCode.none


class TransactionStateName(StrEnum):
    """The states of a transaction, as DescribeTransactions names them."""

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
"""The outcome is decided, and some partition may have no marker yet."""
OPEN_STATES = DECIDED_STATES | {TransactionStateName.ONGOING}
"""The states in which readers wait. In other states the start of a transaction is that of the one before."""


class TransactionEnd(StrEnum):
    """The outcome of a transaction that an administrator ended."""

    ABORTED = "aborted"
    COMMITTED = "committed"
    NOTHING_OPEN = "nothing open"


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """The end of a transaction; `description` is the last one by its coordinator.

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


CLASSIC, CONSUMER = "classic", "consumer"
"""The types of groups that are described here: that of the classic protocol, and that of KIP-848."""
EMPTY, DEAD = "Empty", "Dead"
"""The states of a group without members, and of one that is not there."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. Brokers that know no types or states leave them empty."""

    group: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member, and the partitions that it has; in a group of KIP-848 also its epoch, and what it is to have.

    A member whose assignment is no assignment of Kafka's consumer protocol has no partitions here.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    epoch: int | None = None
    target_assignment: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group; the epochs are those of KIP-848."""

    group: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Address
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
