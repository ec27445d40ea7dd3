"""Transactions that are open in a partition although their coordinator knows nothing of it: nobody else would end them.

WriteTxnMarkers is for these alone. In Kafka it is the coordinators' own request (CLUSTER_ACTION) and an administrator's. Here the
only coordinator is in this broker and sends itself nothing, so whoever asks is a client, and must not meddle with what the
coordinator is about to end: a marker too early splits a transaction, and one with a later epoch fences its producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from oncelog.broker.storage.partition import Partition
from oncelog.log import OpenTransaction
from oncelog.transactions import DECIDED, ONGOING, TransactionMetadata, has_epoch_per_transaction
from oncelog.transactions.state import PRODUCER_EPOCH_MAX
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.topics import Topics

Owners = Mapping[int, TransactionMetadata]
"""By producer id: the transactions that the coordinator knows."""


class Needs(Protocol):
    """What of the broker is needed here."""

    leader_epoch: int
    topics: Topics
    transactions: Transactions


class AskedMarker(NamedTuple):
    """A marker as a client asks for it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    committed: bool


def owners_of(broker: Needs) -> Owners:
    return {metadata.producer_id: metadata for metadata in broker.transactions.coordinator.transactions()}


def end_as_asked(broker: Needs, owners: Owners, partition: Partition, asked: AskedMarker) -> ErrorCode:
    """End a hanging transaction in one partition; without one there is nothing to do, and nothing is written.

    Errors: invalid_txn_state, invalid_producer_epoch, transaction_coordinator_fenced, coordinator_not_available.
    """
    found = partition.log.open_transaction(asked.producer_id)
    if found is None:
        return ErrorCode.none
    owner = owners.get(asked.producer_id)
    if owner is None and not broker.transactions.knows_every_id():
        # Its coordinator may have decided about it, in a partition that is offline.
        return ErrorCode.coordinator_not_available
    if _is_about(owner, partition) and owner is not None and owner.status in {ONGOING, *DECIDED}:
        return ErrorCode.invalid_txn_state
    if asked.producer_epoch != _marker_epoch(found, asked.transaction_version):
        return ErrorCode.invalid_producer_epoch
    if owner is not None and asked.producer_epoch > owner.producer_epoch:
        return ErrorCode.invalid_producer_epoch
    newest = max(found.coordinator_epoch, broker.leader_epoch)
    if not found.coordinator_epoch <= asked.coordinator_epoch <= newest:
        return ErrorCode.transaction_coordinator_fenced
    return broker.transactions.write_marker(
        partition,
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_version,
        committed=asked.committed,
    )


def _marker_epoch(found: OpenTransaction, transaction_version: int) -> int:
    """KIP-890: from version 2 on the marker of a transaction has the epoch after it, if there is one."""
    if has_epoch_per_transaction(transaction_version):
        return min(found.producer_epoch + 1, PRODUCER_EPOCH_MAX)
    return found.producer_epoch


def end_after_start(broker: Needs) -> int:
    """Abort every transaction that hangs after a start; return how many there were.

    After a power cut a partition may have kept records whose Ongoing record is lost. Nobody would ever end that
    transaction, and its readers would wait for ever. The markers of decided transactions are out already: what they did
    not close is of a later one.
    """
    owners = owners_of(broker)
    knows_every_id = broker.transactions.knows_every_id()
    ended = 0
    for partition in broker.topics.partitions():
        for found in partition.log.open_transactions():
            owner = owners.get(found.producer_id)
            if owner is not None and owner.status is ONGOING and _is_about(owner, partition):
                continue
            if owner is None and not knows_every_id:
                continue
            broker.transactions.write_marker(
                partition, found.producer_id, found.producer_epoch, partition.leader_epoch, 0, committed=False
            )
            ended += 1
    return ended


def _is_about(owner: TransactionMetadata | None, partition: Partition) -> bool:
    return owner is not None and (partition.topic, partition.index) in owner.partitions
