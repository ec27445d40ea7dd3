"""The transactional ids that this node coordinates, as the records of `__transaction_state` have made them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from oncelog.coordination.names import matching, regex_problem
from oncelog.transactions.records import TransactionRecord
from oncelog.transactions.state import DECIDED, ListedTransaction, TransactionMetadata, TransactionStatus
from oncelog.wire import ErrorCode


@dataclass(slots=True)
class TransactionalIds:
    """`replay` alone changes what is known of an id. While a record of it waits to be appended, the id is *pending*."""

    _metadata: dict[str, TransactionMetadata] = field(default_factory=dict)
    _pending: dict[str, TransactionRecord] = field(default_factory=dict)
    _by_partition: dict[int, set[str]] = field(default_factory=dict)
    _owners: dict[int, str] = field(default_factory=dict)

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        return self._metadata.get(transactional_id)

    def transactions(self) -> Collection[TransactionMetadata]:
        """The metadata of every id."""
        return self._metadata.values()

    def transactions_of(self, partition: int) -> Collection[TransactionMetadata]:
        """The same for the ids of one partition of the transaction log."""
        return [self._metadata[one] for one in sorted(self._by_partition.get(partition, ()))]

    def owner_of(self, producer_id: int) -> TransactionMetadata | None:
        """The transactional id that has a producer id now."""
        transactional_id = self._owners.get(producer_id)
        return None if transactional_id is None else self._metadata.get(transactional_id)

    def is_pending(self, transactional_id: str) -> bool:
        """True while a decision about this id waits for its record to be appended."""
        return transactional_id in self._pending

    def is_idle(self, transactional_id: str) -> bool:
        """True if nothing is in progress: a request that was answered `concurrent_transactions` can be sent again."""
        if transactional_id in self._pending:
            return False
        metadata = self._metadata.get(transactional_id)
        return metadata is None or metadata.status not in DECIDED

    def replay(self, partition: int, record: TransactionRecord) -> None:
        """Apply one record of partition `partition`: the very object a decision held, or one decoded from the log."""
        transactional_id = record.transactional_id
        pending = self._pending.pop(transactional_id, None)
        assert pending is None or pending is record, (pending, record)
        before, after = self._metadata.get(transactional_id), record.metadata
        if before is not None and after is not None and before.producer_id == after.producer_id:
            self._metadata[transactional_id] = after
            return
        if before is not None:
            self._forget(before)
            self._by_partition[partition].discard(transactional_id)
        if after is not None:
            self._metadata[transactional_id] = after
            self._owners[after.producer_id] = transactional_id
            self._by_partition.setdefault(partition, set()).add(transactional_id)

    def hold(self, record: TransactionRecord) -> None:
        """The record of a decision will be appended later: until then nothing else is decided about its id."""
        assert record.transactional_id not in self._pending, record
        self._pending[record.transactional_id] = record

    def let_go(self, transactional_id: str) -> None:
        """Drop a held record: the id is as it was before."""
        self._pending.pop(transactional_id, None)

    def unload(self, partition: int) -> list[str]:
        """Forget the ids of a partition of the transaction log, and what was decided about them; return them."""
        gone = sorted(self._by_partition.pop(partition, ()))
        for transactional_id in gone:
            self._forget(self._metadata[transactional_id])
            self._pending.pop(transactional_id, None)
        return gone

    def _forget(self, metadata: TransactionMetadata) -> None:
        del self._metadata[metadata.transactional_id]
        if self._owners.get(metadata.producer_id) == metadata.transactional_id:
            del self._owners[metadata.producer_id]


def listing(
    transactions: Iterable[TransactionMetadata],
    now_ms: int,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    id_pattern: str | None = None,
) -> ListedTransaction:
    """Keep what passes every filter. Empty collections, -1 and no pattern let everything pass.

    `states` are names as DescribeTransactions answers them; `id_pattern` must match an id as a whole. Errors:
    invalid_regular_expression.
    """
    if id_pattern and regex_problem(id_pattern) is not None:
        return ListedTransaction(ErrorCode.invalid_regular_expression)
    writers = frozenset(producer_ids)
    named = {state: TransactionStatus.from_label(state) for state in states}
    wanted = set(named.values())
    found = tuple(
        metadata
        for metadata in transactions
        if (not named or metadata.status in wanted)
        and (not writers or metadata.producer_id in writers)
        and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
    )
    if id_pattern:
        matched = matching(id_pattern, (metadata.transactional_id for metadata in found))
        found = tuple(metadata for metadata in found if metadata.transactional_id in matched)
    unknown = tuple(state for state, status in named.items() if status is None)
    return ListedTransaction(ErrorCode.none, unknown, found)
