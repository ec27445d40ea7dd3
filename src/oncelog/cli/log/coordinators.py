"""Compares the coordinators' logs with the partitions: decided transactions without markers, and hanging transactions."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog import groups, transactions
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.log import OpenTransaction
from oncelog.log.inspection.findings import AtStart, Finding, Report, Severity
from oncelog.log.inspection.partition import Watch
from oncelog.log.scan import ScannedBatch
from oncelog.records import Record, decode_batch
from oncelog.transactions import DECIDED, ONGOING, TransactionMetadata
from oncelog.wire import WireError

PartitionKey = tuple[str, int]


class CoordinatorWatch:
    """The last state of each transactional id. Only the coordinators' own partitions are read for it."""

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.paths: dict[str, str] = {}
        self.producer_id_max = -1

    def of(self, key: PartitionKey, path: str, report: Report) -> Watch:
        """The watch for the batches of a partition."""

        def watch(batch: ScannedBatch) -> None:
            self.producer_id_max = max(self.producer_id_max, batch.header.producer_id)
            if key[0] not in (TRANSACTION_STATE, CONSUMER_OFFSETS) or batch.header.is_control:
                return
            for record in decode_batch(batch.data, batch.position_in_data):
                try:
                    self._take(key[0], path, record)
                except WireError as error:
                    what = f"the record cannot be read: {error}"
                    report(Finding(path, what, AtStart.IGNORES, offset=record.offset, position=batch.position))

        return watch

    def _take(self, topic: str, path: str, record: Record) -> None:
        """Raises WireError."""
        if topic == CONSUMER_OFFSETS:
            groups.decode(record)
            return
        found = transactions.decode(record)
        if found is None:
            return
        if found.metadata is None:
            self.transactions.pop(found.transactional_id, None)
            return
        self.transactions[found.transactional_id] = found.metadata
        self.paths[found.transactional_id] = path
        self.producer_id_max = max(self.producer_id_max, found.metadata.producer_id, found.metadata.next_producer_id)


def check_transactions(
    watch: CoordinatorWatch,
    open_transactions: Iterable[tuple[PartitionKey, str, OpenTransaction]],
    report: Report,
    *,
    was_clean: bool,
) -> None:
    """Report the transactions that are decided and not complete, and the open ones that no coordinator knows."""
    for transactional_id, metadata in sorted(watch.transactions.items()):
        if metadata.status in DECIDED:
            what = f"the transaction of {transactional_id!r} is {metadata.status.label}, and not complete"
            report(Finding(watch.paths[transactional_id], what, AtStart.FINISHES, Severity.PENDING))
    owners = {metadata.producer_id: metadata for metadata in watch.transactions.values()}
    for key, path, found in open_transactions:
        owner = owners.get(found.producer_id)
        if owner is not None and owner.status in {ONGOING, *DECIDED} and key in owner.partitions:
            continue
        what = f"the transaction of producer {found.producer_id} is open, and its coordinator knows of none"
        severity, at_start = Severity.PENDING, AtStart.FINISHES
        if was_clean:
            severity, at_start = Severity.DAMAGE, AtStart.IGNORES
        report(Finding(path, what, at_start, severity, offset=found.first_offset))
