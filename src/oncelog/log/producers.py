"""The producers of one partition: their last batches, and their open transactions.

Checks decide and change nothing. `record_data` and `record_marker` are the only ways to change the state, live and when a log is
read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oncelog.log.outcome import AbortedTransaction, ActiveProducer, OpenTransaction, Origin, Refused
from oncelog.log.scan import ScannedBatch
from oncelog.records import NO_SEQUENCE, SEQUENCE_MAX, BatchHeader, ControlType, next_sequence, read_control
from oncelog.records.batch import NO_PRODUCER_EPOCH, TRANSACTIONAL_BIT
from oncelog.wire import ErrorCode

# A client may have five requests on their way; any of them may come twice.
BATCHES_KEPT = 5
EPOCH_MAX = 2**15 - 1
NO_COORDINATOR_EPOCH = -1


class BatchEntry(NamedTuple):
    """A batch that a second copy would be recognised by."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerStateEntry:
    """One producer id. `transaction_first_offset` is that of its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = -1
        self.transaction_first_offset: int | None = None
        self.batches: tuple[BatchEntry, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()

    def first_copy(self, first_sequence: int, last_sequence: int) -> BatchEntry | None:
        for entry in self.batches:
            if entry.first_sequence == first_sequence and entry.last_sequence == last_sequence:
                return entry
        return None


class _Completed(NamedTuple):
    first_offset: int
    marker_offset: int


class Producers:
    """The producers of one partition, by id."""

    __slots__ = ("_by_id", "_name", "_open", "_undecided")

    def __init__(self, name: str) -> None:
        self._name = name
        self._by_id: dict[int, ProducerStateEntry] = {}
        # Producer id to first offset. New transactions begin at the end of the log, so the oldest comes first.
        self._open: dict[int, int] = {}
        # Transactions whose marker is not below the high watermark yet, in the order of the markers.
        self._undecided: deque[_Completed] = deque()

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def epoch_of(self, producer_id: int) -> int:
        producer = self._by_id.get(producer_id)
        return NO_PRODUCER_EPOCH if producer is None else producer.epoch

    def coordinator_epoch_of(self, producer_id: int) -> int:
        producer = self._by_id.get(producer_id)
        return NO_COORDINATOR_EPOCH if producer is None else producer.coordinator_epoch

    def check_data(
        self, header: BatchHeader, origin: Origin, *, verified: bool, first_sequence_must_be_zero: bool
    ) -> BatchEntry | Refused | None:
        """Decide about a batch of a producer: the first copy if it is a second one, a refusal, or None to append it."""
        producer = self._by_id.get(header.producer_id)
        is_client = origin is Origin.CLIENT
        is_transactional = header.attributes & TRANSACTIONAL_BIT
        if producer is None:
            if not is_client:
                return None
            if is_transactional and not verified:
                return self._refused_unverified(header)
            if first_sequence_must_be_zero and header.base_sequence != 0:
                return self._refused_sequence(header, NO_SEQUENCE)
            return None
        epoch = header.producer_epoch
        if is_client and epoch == producer.epoch:
            # KIP-98: the second copy is recognised before anything about it can be wrong.
            first_copy = producer.first_copy(header.base_sequence, header.last_sequence)
            if first_copy is not None:
                return first_copy
        if epoch < producer.epoch:
            return self._refused_epoch(producer, epoch)
        has_open = producer.transaction_first_offset is not None
        if is_client:
            if is_transactional and not verified and not (has_open and epoch == producer.epoch):
                return self._refused_unverified(header)
            if not self._is_in_sequence(producer, header, first_sequence_must_be_zero):
                return self._refused_sequence(header, producer.last_sequence)
        if has_open and not is_transactional:
            return Refused(
                ErrorCode.invalid_txn_state,
                f"{self._name}: producer {header.producer_id} has an open transaction and wrote outside of it",
            )
        return None

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> Refused | None:
        """Decide about a marker: a refusal, or None to append it.

        As in Kafka's `ProducerAppendInfo`, the coordinator's epoch is not before that of the last marker: another broker may
        think that it is the coordinator still.
        """
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        if coordinator_epoch < producer.coordinator_epoch:
            return Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"{self._name}: producer {producer_id} has a marker of coordinator epoch {producer.coordinator_epoch}, "
                f"and this one is of {coordinator_epoch}",
            )
        if producer_epoch < producer.epoch:
            return self._refused_epoch(producer, producer_epoch)
        if (
            transaction_version >= 2
            and producer_epoch == producer.epoch
            and producer.transaction_first_offset is not None
            and producer_epoch != EPOCH_MAX
        ):
            # KIP-890: the marker of a transaction has the epoch after it, so this one ended an earlier transaction.
            return self._refused_epoch(producer, producer_epoch)
        return None

    def record_data(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Note a batch of a producer that is in the log at `base_offset`."""
        producer_id = header.producer_id
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = ProducerStateEntry(producer_id, header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.take_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        first_sequence = header.base_sequence
        last_sequence = first_sequence if first_sequence == NO_SEQUENCE else next_sequence(first_sequence, delta)
        entry = BatchEntry(first_sequence, last_sequence, base_offset, base_offset + delta, timestamp_ms)
        producer.batches = (*producer.batches[1 - BATCHES_KEPT :], entry)
        producer.last_timestamp_ms = timestamp_ms
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_first_offset is None:
            producer.transaction_first_offset = self._open[producer_id] = base_offset

    def record_marker(
        self,
        control: ControlType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timestamp_ms: int,
        offset: int,
    ) -> AbortedTransaction | None:
        """Note a marker that is in the log at `offset`; return the transaction with records here that it aborted."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = ProducerStateEntry(producer_id, producer_epoch)
        producer.take_epoch(producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        producer.transaction_first_offset = None
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._undecided.append(_Completed(first_offset, offset))
        if control is ControlType.COMMIT:
            return None
        last_stable_offset = next(iter(self._open.values()), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, last_stable_offset)

    def advance_high_watermark(self, high_watermark: int) -> None:
        undecided = self._undecided
        while undecided and undecided[0].marker_offset < high_watermark:
            undecided.popleft()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or was ended by a marker not below the high watermark."""
        oldest_open = next(iter(self._open.values())) if self._open else None
        if not self._undecided:
            return oldest_open
        oldest_undecided = min([completed.first_offset for completed in self._undecided])
        return oldest_undecided if oldest_open is None else min(oldest_open, oldest_undecided)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have no open transaction and wrote nothing for so long; return how many."""
        expired = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.transaction_first_offset is None and now_ms - producer.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._by_id[producer_id]
        return len(expired)

    def load(self, producers: Iterable[ProducerStateEntry]) -> None:
        """Take the state of a snapshot."""
        self._by_id = {producer.producer_id: producer for producer in producers}
        firsts = ((one.transaction_first_offset, one.producer_id) for one in self)
        opened = sorted((first, producer_id) for first, producer_id in firsts if first is not None)
        self._open = {producer_id: first for first, producer_id in opened}
        self._undecided.clear()

    def active(self) -> tuple[ActiveProducer, ...]:
        return tuple(
            ActiveProducer(
                producer.producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                -1 if producer.transaction_first_offset is None else producer.transaction_first_offset,
            )
            for producer in self
        )

    def open_transaction(self, producer_id: int) -> OpenTransaction | None:
        first_offset = self._open.get(producer_id)
        if first_offset is None:
            return None
        producer = self._by_id[producer_id]
        return OpenTransaction(producer_id, producer.epoch, producer.coordinator_epoch, first_offset)

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """The open transactions, the oldest first."""
        return tuple(found for producer_id in self._open if (found := self.open_transaction(producer_id)) is not None)

    def _is_in_sequence(
        self, producer: ProducerStateEntry, header: BatchHeader, first_sequence_must_be_zero: bool
    ) -> bool:
        first_sequence = header.base_sequence
        if first_sequence_must_be_zero and first_sequence != 0 and not producer.batches:
            return False
        if producer.epoch == NO_PRODUCER_EPOCH:
            return True
        if header.producer_epoch != producer.epoch:
            return first_sequence == 0
        last_sequence = producer.last_sequence
        return first_sequence == last_sequence + 1 or (first_sequence == 0 and last_sequence == SEQUENCE_MAX)

    def _refused_unverified(self, header: BatchHeader) -> Refused:
        return Refused(
            ErrorCode.invalid_txn_state,
            f"{self._name}: the transaction of producer {header.producer_id} does not contain this partition",
        )

    def _refused_epoch(self, producer: ProducerStateEntry, epoch: int) -> Refused:
        return Refused(
            ErrorCode.invalid_producer_epoch,
            f"{self._name}: epoch {epoch} of producer {producer.producer_id} is not the current one, {producer.epoch}",
        )

    def _refused_sequence(self, header: BatchHeader, last_sequence: int) -> Refused:
        return Refused(
            ErrorCode.out_of_order_sequence_number,
            f"{self._name}: sequence {header.base_sequence} of producer {header.producer_id} "
            f"(epoch {header.producer_epoch}) does not follow {last_sequence}",
        )


def replay(producers: Producers, batch: ScannedBatch) -> AbortedTransaction | None:
    """Bring the producers up to date with a batch of the log."""
    header = batch.header
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.record_data(header, header.base_offset, header.max_timestamp_ms)
        return None
    marker = read_control(batch.data, batch.position_in_data)
    if marker is None:
        return None
    return producers.record_marker(
        marker.control,
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.max_timestamp_ms,
        header.base_offset,
    )
