"""The transaction coordinator: the rules for every request about a transactional id.

It keeps the contract of `coordination/decision.py`: deciding changes nothing, `replay` makes a record true, live and at a
start. A record that cannot be appended at once makes its id *pending* (`hold`): other requests for the id are answered
CONCURRENT_TRANSACTIONS until the record is replayed. `transactional_ids.py` has both, and the metadata of each id.

EndTxn decides, makes the records of the transaction durable, appends and replays the Prepare record, makes it durable, and
answers. Then the markers are written, and `complete` returns the record that ends the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from oncelog.coordination import Decision
from oncelog.coordination.internal_topics import partition_for
from oncelog.transactions import transitions
from oncelog.transactions.records import TransactionRecord
from oncelog.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    DECIDED,
    IDLE,
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_COMMIT,
    DescribedTransaction,
    EndTransactionAnswer,
    InitProducerIdAnswer,
    MarkersToSend,
    TopicPartition,
    TransactionMetadata,
    is_legal,
    markers_of,
)
from oncelog.transactions.transactional_ids import TransactionalIds
from oncelog.transactions.transitions import (
    EPOCH_PER_TRANSACTION_VERSION,
    is_bump_retry,
    is_overflow_retry,
    may_ask_for_bump,
)
from oncelog.wire import ErrorCode

PARTITION_COUNT = 50
TIMEOUT_MAX_MS = 900_000
ID_EXPIRATION_MS = 604_800_000

_NONE = ErrorCode.none
_CONCURRENT = ErrorCode.concurrent_transactions
_FENCED = ErrorCode.producer_fenced
_UNMAPPED = ErrorCode.invalid_producer_id_mapping
_ABORTABLE = ErrorCode.transaction_abortable
_INVALID_STATE = ErrorCode.invalid_txn_state

InitDecision = Decision[TransactionRecord, InitProducerIdAnswer]
AddDecision = Decision[TransactionRecord, ErrorCode]
EndDecision = Decision[TransactionRecord, EndTransactionAnswer]
RecordDecision = Decision[TransactionRecord, None]


class TransactionCoordinator:
    """Decides about the transactional ids of this node.

    `transaction_version` is the finalized feature level: from 2 on, the aborts this coordinator decides by itself bump
    the epoch the way EndTxn v5 does. Producer ids come from the `allocate` argument of the calls that may need one.
    """

    __slots__ = (
        "id_expiration_ms",
        "ids",
        "partition_count",
        "timeout_max_ms",
        "transaction_version",
    )

    def __init__(
        self,
        partition_count: int = PARTITION_COUNT,
        *,
        transaction_version: int = EPOCH_PER_TRANSACTION_VERSION,
        timeout_max_ms: int = TIMEOUT_MAX_MS,
        id_expiration_ms: int = ID_EXPIRATION_MS,
    ) -> None:
        self.partition_count = partition_count
        self.transaction_version = transaction_version
        self.timeout_max_ms = timeout_max_ms
        self.id_expiration_ms = id_expiration_ms
        self.ids = TransactionalIds()

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` whose leader coordinates this id."""
        return partition_for(transactional_id, self.partition_count)

    # InitProducerId

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        allocate: Callable[[], int],
    ) -> InitDecision:
        """Give a producer its id and epoch. `producer_id` and `producer_epoch` are the ones it has, or -1 and -1.

        Errors: invalid_request, invalid_transaction_timeout, producer_fenced, and concurrent_transactions: with
        `markers` when this very call aborts the transaction that was open, without when something else is in progress.
        """
        if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
            return _init_refused(ErrorCode.invalid_request)
        if transactional_id is None:
            return Decision((), InitProducerIdAnswer(_NONE, allocate(), 0))
        if not transactional_id:
            return _init_refused(ErrorCode.invalid_request)
        if not 0 < timeout_ms <= self.timeout_max_ms:
            return _init_refused(ErrorCode.invalid_transaction_timeout)
        if self.ids.is_pending(transactional_id):
            return _init_refused(_CONCURRENT)
        before = self.ids.metadata(transactional_id)
        if before is None:
            before = transitions.unknown_id(transactional_id, allocate(), timeout_ms)
        is_supplied = producer_id != NO_PRODUCER_ID
        if is_supplied and not may_ask_for_bump(before, producer_id, producer_epoch):
            return _init_refused(_FENCED)
        if before.status in DECIDED:
            return _init_refused(_CONCURRENT)
        if before.status is ONGOING:
            if is_supplied and (producer_id, producer_epoch) != (before.producer_id, before.producer_epoch):
                # A transaction is open under a newer epoch: a zombie must not be able to abort it.
                return _init_refused(_FENCED)
            fenced = self._fence(before, now_ms)
            return Decision((fenced,), InitProducerIdAnswer(_CONCURRENT, markers=_markers_of(fenced)))
        return self._initialize(before, timeout_ms, producer_epoch if is_supplied else None, now_ms, allocate)

    def _initialize(
        self,
        before: TransactionMetadata,
        timeout_ms: int,
        expected_epoch: int | None,
        now_ms: int,
        allocate: Callable[[], int],
    ) -> InitDecision:
        """The bump of an idle id (KIP-360): once for each epoch the producer knows, and never twice for the same."""
        stored_epoch = before.producer_epoch
        producer_id = before.producer_id
        if expected_epoch is None or expected_epoch == stored_epoch or stored_epoch == NO_PRODUCER_EPOCH:
            last_epoch = NO_PRODUCER_EPOCH if expected_epoch is None else stored_epoch
            if before.epoch_is_exhausted:
                producer_id, epoch = allocate(), 0
            else:
                epoch = stored_epoch + 1
        elif expected_epoch == before.last_producer_epoch and stored_epoch <= LAST_CLIENT_EPOCH:
            # The answer to the bump before was lost: the same answer again.
            epoch, last_epoch = stored_epoch, before.last_producer_epoch
        else:
            return _init_refused(_FENCED)
        after = transitions.initialized(before, producer_id, epoch, last_epoch, timeout_ms, now_ms)
        return Decision((_record(after),), InitProducerIdAnswer(_NONE, producer_id, epoch))

    # Partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        tv2: bool,
    ) -> AddDecision:
        """Add partitions to the transaction, and begin it if none is open.

        Errors: invalid_request, invalid_producer_id_mapping, producer_fenced, concurrent_transactions.
        """
        before, error = self._writable(transactional_id, producer_id, producer_epoch)
        if before is None:
            return Decision((), error)
        added = frozenset(partitions)
        if before.status is ONGOING and added <= before.partitions:
            return Decision((), _NONE)
        version = EPOCH_PER_TRANSACTION_VERSION if tv2 else 0
        return Decision((_record(transitions.with_partitions(before, added, version, now_ms)),), _NONE)

    def _writable(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> tuple[TransactionMetadata | None, ErrorCode]:
        if not transactional_id:
            return None, ErrorCode.invalid_request
        metadata = self.ids.metadata(transactional_id)
        if metadata is None:
            return None, _UNMAPPED
        # First, because a producer may already hold the id and epoch that only the pending record will make true.
        if self.ids.is_pending(transactional_id) or metadata.status in DECIDED:
            return None, _CONCURRENT
        if metadata.producer_id != producer_id:
            return None, _UNMAPPED
        if metadata.producer_epoch != producer_epoch:
            return None, _FENCED
        return metadata, _NONE

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Check that this producer may write to this partition now, inside its open transaction.

        From the moment the end of a transaction is decided the answer is no: nothing can slip in before the marker.
        Errors: invalid_producer_id_mapping, producer_fenced, concurrent_transactions, transaction_abortable.
        """
        metadata = self.ids.metadata(transactional_id)
        if metadata is None or metadata.producer_id != producer_id:
            return _UNMAPPED
        if metadata.producer_epoch != producer_epoch:
            return _FENCED
        if self.ids.is_pending(transactional_id):
            return _CONCURRENT
        if metadata.status is ONGOING:
            return _NONE if (topic, partition) in metadata.partitions else _ABORTABLE
        return _CONCURRENT if metadata.status in DECIDED else _ABORTABLE

    # The end of a transaction

    def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        now_ms: int,
        tv2: bool,
        allocate: Callable[[], int],
    ) -> EndDecision:
        """Decide how a transaction ends. `tv2` is EndTxn v5: an epoch for each transaction (KIP-890).

        Errors: invalid_request, invalid_producer_id_mapping, producer_fenced, concurrent_transactions,
        invalid_txn_state.
        """
        if not transactional_id:
            return _end_refused(ErrorCode.invalid_request)
        before = self.ids.metadata(transactional_id)
        if before is None:
            return _end_refused(_UNMAPPED)
        if tv2:
            return self._end_with_bump(before, producer_id, producer_epoch, committed, now_ms, allocate)
        return self._end_without_bump(before, producer_id, producer_epoch, committed, now_ms)

    def _end_without_bump(
        self, before: TransactionMetadata, producer_id: int, producer_epoch: int, committed: bool, now_ms: int
    ) -> EndDecision:
        if before.producer_id != producer_id:
            return _end_refused(_UNMAPPED)
        if before.producer_epoch != producer_epoch:
            return _end_refused(_FENCED)
        if self.ids.is_pending(before.transactional_id) or before.status in DECIDED:
            return _end_refused(_CONCURRENT)
        if before.status is ONGOING:
            record = _record(transitions.prepared(before, committed, now_ms))
            return Decision((record,), EndTransactionAnswer(_NONE, producer_id, producer_epoch, _markers_of(record)))
        if before.status is (COMPLETE_COMMIT if committed else COMPLETE_ABORT):
            return Decision((), EndTransactionAnswer(_NONE, producer_id, producer_epoch))
        return _end_refused(_INVALID_STATE)

    def _end_with_bump(
        self,
        before: TransactionMetadata,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        now_ms: int,
        allocate: Callable[[], int],
    ) -> EndDecision:
        if self.ids.is_pending(before.transactional_id) or before.status in DECIDED:
            return _end_refused(_CONCURRENT)
        is_rotated = is_overflow_retry(before, producer_id, producer_epoch)
        if before.producer_id != producer_id and not is_rotated:
            return _end_refused(_UNMAPPED)
        if before.status in (COMPLETE_COMMIT, COMPLETE_ABORT) and (is_rotated or is_bump_retry(before, producer_epoch)):
            if before.status is (COMPLETE_COMMIT if committed else COMPLETE_ABORT):
                return Decision((), EndTransactionAnswer(_NONE, before.producer_id, before.producer_epoch))
            return _end_refused(_INVALID_STATE)
        if before.producer_id != producer_id or before.producer_epoch != producer_epoch:
            return _end_refused(_FENCED)
        if before.status is not ONGOING and committed:
            return _end_refused(_INVALID_STATE)
        next_producer_id = allocate() if before.epoch_is_exhausted else NO_PRODUCER_ID
        record = _record(transitions.prepared_with_bump(before, committed, next_producer_id, now_ms))
        if next_producer_id != NO_PRODUCER_ID:
            identity = next_producer_id, 0
        else:
            identity = producer_id, producer_epoch + 1
        return Decision((record,), EndTransactionAnswer(_NONE, *identity, _markers_of(record)))

    def complete(self, transactional_id: str, now_ms: int) -> RecordDecision:
        """The record that ends a decided transaction, once every marker is durable."""
        before = self.ids.metadata(transactional_id)
        assert before is not None, transactional_id
        assert before.status in DECIDED, before
        assert not self.ids.is_pending(transactional_id), transactional_id
        return Decision((_record(transitions.completed(before, now_ms)),), None)

    def pending_completions(self, partition: int | None = None) -> tuple[MarkersToSend, ...]:
        """Every transaction that is decided and not complete, of one partition of the transaction log or of them all.

        When that is loaded its markers go out, perhaps again.
        """
        known = self.ids.transactions() if partition is None else self.ids.transactions_of(partition)
        return tuple(
            markers_of(metadata, committed=metadata.status is PREPARE_COMMIT)
            for metadata in known
            if metadata.status in DECIDED and not self.ids.is_pending(metadata.transactional_id)
        )

    # What time does

    def abort_timed_out(self, now_ms: int) -> list[EndDecision]:
        """One abort for each open transaction that outlived its timeout, its producer fenced."""
        decisions = []
        for before in self.ids.transactions():
            if before.status is not ONGOING or self.ids.is_pending(before.transactional_id):
                continue
            if before.start_ms + before.timeout_ms < now_ms:
                record = self._fence(before, now_ms)
                decisions.append(Decision((record,), EndTransactionAnswer(_NONE, markers=_markers_of(record))))
        return decisions

    def expire_ids(self, now_ms: int) -> list[RecordDecision]:
        """One tombstone for each id that nobody used for `id_expiration_ms`. An id with a transaction never expires."""
        decisions: list[RecordDecision] = []
        for before in self.ids.transactions():
            if before.status not in IDLE or self.ids.is_pending(before.transactional_id):
                continue
            if before.last_update_ms + self.id_expiration_ms <= now_ms:
                assert is_legal(before.status, DEAD), before
                decisions.append(Decision((TransactionRecord(before.transactional_id, None, now_ms),), None))
        return decisions

    def fence(self, transactional_id: str, now_ms: int, allocate: Callable[[], int]) -> EndDecision:
        """Take a producer's identity away: for a start that may have lost records which were acknowledged.

        A producer that went on as if nothing had happened could commit a transaction of which only a part is left, or be
        told that its last one was committed when it asks about the one after that. An open transaction is aborted, with
        `markers`. A decided one is completed first: its markers must keep the epoch that its records have.
        """
        before = self.ids.metadata(transactional_id)
        assert before is not None, transactional_id
        assert before.status not in DECIDED, before
        if before.status is ONGOING:
            record = self._fence(before, now_ms)
            return Decision((record,), EndTransactionAnswer(_NONE, markers=_markers_of(record)))
        identity = (allocate(), 0) if before.epoch_is_exhausted else (before.producer_id, before.producer_epoch + 1)
        after = transitions.initialized(before, *identity, NO_PRODUCER_EPOCH, before.timeout_ms, now_ms)
        return Decision((_record(after),), EndTransactionAnswer(_NONE))

    # What operators ask

    def transactions(self) -> Collection[TransactionMetadata]:
        """The metadata of every id of this node."""
        return self.ids.transactions()

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Errors: invalid_request, transactional_id_not_found."""
        if not transactional_id:
            return DescribedTransaction(ErrorCode.invalid_request)
        metadata = self.ids.metadata(transactional_id)
        if metadata is None:
            return DescribedTransaction(ErrorCode.transactional_id_not_found)
        return DescribedTransaction(_NONE, metadata)

    def _fence(self, before: TransactionMetadata, now_ms: int) -> TransactionRecord:
        return _record(transitions.fenced(before, self.transaction_version, now_ms))


def _record(after: TransactionMetadata) -> TransactionRecord:
    return TransactionRecord(after.transactional_id, after, after.last_update_ms)


def _init_refused(error: ErrorCode) -> InitDecision:
    return Decision((), InitProducerIdAnswer(error))


def _end_refused(error: ErrorCode) -> EndDecision:
    return Decision((), EndTransactionAnswer(error))


def _markers_of(record: TransactionRecord) -> MarkersToSend:
    assert record.metadata is not None
    return markers_of(record.metadata, committed=record.metadata.status is PREPARE_COMMIT)
