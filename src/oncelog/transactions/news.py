"""A line of a broker's log about a record of the transaction log."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.coordination.names import first_of
from oncelog.transactions.records import TransactionRecord
from oncelog.transactions.state import DECIDED, ONGOING, PREPARE_COMMIT, TopicPartition, TransactionMetadata


def news(before: TransactionMetadata | None, record: TransactionRecord) -> str | None:
    """Say what the transactional id does that it did not do `before`; None where its transaction is what it was."""
    after = record.metadata
    if after is None:
        return None
    producer = f"producer id {after.producer_id}, epoch {after.producer_epoch}"
    if after.status is ONGOING:
        is_open = before is not None and before.status is ONGOING
        known = before.partitions if before is not None and is_open else frozenset()
        added = after.partitions - known
        if not is_open:
            return f"a transaction begins with {_named(added)}, {producer}"
        return f"its transaction has {_named(added)}, too" if added else None
    if after.status in DECIDED:
        end = "committed" if after.status is PREPARE_COMMIT else "aborted"
        count = len(after.partitions)
        return f"its transaction in {count} partitions is to be {end} ({after.status.label}), {producer}"
    return None


def _named(partitions: Collection[TopicPartition]) -> str:
    return first_of([f"{topic}-{index}" for topic, index in sorted(partitions)])
