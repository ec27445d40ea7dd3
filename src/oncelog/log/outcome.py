"""Values that a log returns, and errors that it raises."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.environment import DiskError, Share
from oncelog.wire import ErrorCode


class DamagedLogError(DiskError):
    """Names the file and the offset. It is about one partition: the disk answers, and the others may be whole."""


class UnknownEpochError(DamagedLogError):
    """A batch has a leader epoch that there was not: `epoch`."""

    def __init__(self, damage: DamagedLogError, epoch: int) -> None:
        super().__init__(str(damage))
        self.epoch = epoch


class Origin(Enum):
    """The writer of a batch. Coordinators write with sequence 0 every time, so their sequences are not checked.

    COORDINATOR: a client's request to a coordinator; it has to fit the settings of the topic, as in Kafka. OBLIGED: the
    consequence of an earlier request, such as the end of a transaction; no setting keeps it out of the log.

    `share` is its share of the room that is kept back for a full disk: none for producers, and for no client all that transactions
    need to end.
    """

    CLIENT = "client", Share.NONE
    COORDINATOR = "coordinator", Share.HALF
    OBLIGED = "obliged", Share.ALL

    def __init__(self, _: str, share: Share) -> None:
        self.share = share


class Appended(NamedTuple):
    """The place of a batch. A duplicate has the offsets of its first copy, and nothing was written."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool
    log_start_offset: int


class Refused(NamedTuple):
    """Nothing was written, and this is why."""

    error: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()


class LogSlice(NamedTuple):
    """Whole batches as they are in the log. The first may begin below the offset that was asked for.

    `next_offset` is where the next read goes on: no batch in `data` reaches it.
    """

    data: Buffer
    next_offset: int


class TimestampOffset(NamedTuple):
    """A record's timestamp in milliseconds, and its offset."""

    timestamp_ms: int
    offset: int


class AbortedTransaction(NamedTuple):
    """A transaction with records in this partition that was aborted.

    `last_offset` is that of the ABORT marker; `last_stable_offset` is the one just after the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class OpenTransaction(NamedTuple):
    """A transaction that has records in this partition and no marker yet."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int


class ActiveProducer(NamedTuple):
    """The state of a producer as DescribeProducers shows it; -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_transaction_first_offset: int
