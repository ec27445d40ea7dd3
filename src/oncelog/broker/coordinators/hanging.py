"""Transactions that are open in a partition although their coordinator knows nothing of it: nobody else would end them.

WriteTxnMarkers is the request of the coordinators of other brokers (CLUSTER_ACTION), and an administrator's. What another
coordinator has decided is in its log: the partition takes its marker, if the log does. An administrator must not meddle with what
a coordinator is about to end: a marker too early splits a transaction, and one with a later epoch fences its producer. Where the
coordinators are on other brokers, they are asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from oncelog.broker.coordinators.elections import NOT_LED
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.log import OpenTransaction
from oncelog.log.producers import NO_COORDINATOR_EPOCH
from oncelog.records import NO_PRODUCER_EPOCH
from oncelog.transactions import DECIDED, ONGOING, TransactionMetadata, has_epoch_per_transaction
from oncelog.transactions.state import PRODUCER_EPOCH_MAX
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.transactions")

PRODUCER_ID_MAX = 2**62 - 1
"""Up to here ids can be skipped, and more than anybody needs are left."""


class RequestedMarker(NamedTuple):
    """A marker as a client asks for it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    committed: bool


class Suspects(NamedTuple):
    """The transactions that an administrator may end, as the coordinators know them.

    `busy` are the producers that have a transaction open or decided at any coordinator. `open_before` has the first offset of
    each transaction that was open before the coordinators were asked, by topic, partition and producer id. A transaction that
    begins or ends just now is open in a partition and not at its coordinator for a moment.
    """

    busy: Collection[int]
    open_before: Mapping[tuple[str, int, int], int]


def _marker_epoch(found: OpenTransaction, transaction_version: int) -> int:
    """KIP-890: from version 2 on the marker of a transaction has the epoch after it, if there is one."""
    if has_epoch_per_transaction(transaction_version):
        return min(found.producer_epoch + 1, PRODUCER_EPOCH_MAX)
    return found.producer_epoch


def _is_about(owner: TransactionMetadata | None, partition: Partition) -> bool:
    return owner is not None and (partition.topic, partition.index) in owner.partitions


class HangingTransactions:
    """Ends what hangs: as a WriteTxnMarkers request asks for it, and after a start."""

    def __init__(
        self,
        known_brokers: KnownBrokers,
        leader_epoch: int,
        producer_ids: ProducerIds,
        topics: Topics,
        transactions: Transactions,
    ) -> None:
        self._known_brokers = known_brokers
        self._leader_epoch = leader_epoch
        self._producer_ids = producer_ids
        self._topics = topics
        self._transactions = transactions

    def end_as_asked(self, partition: Partition, asked: RequestedMarker) -> ErrorCode:
        """Write a marker of another broker's coordinator, or an administrator's that ends a hanging transaction.

        Errors: invalid_txn_state, invalid_producer_epoch, invalid_producer_id_mapping, transaction_coordinator_fenced,
        coordinator_not_available, not_leader_or_follower.
        """
        owner = self._transactions.coordinator.ids.owner_of(asked.producer_id)
        if self._known_brokers.has_others:
            epoch = NOT_LED if owner is None else self._transactions.epoch(owner.transactional_id)
            if asked.coordinator_epoch > epoch:
                # The coordinator, or the next one, of which this broker was not told yet.
                return self._write(partition, asked)
            if asked.coordinator_epoch < epoch:
                # The coordinator before this one: what it has decided is carried out here.
                return ErrorCode.transaction_coordinator_fenced
        if owner is None and not self._transactions.knows_every_id():
            # Its coordinator may have decided about it, in a partition that is offline.
            return ErrorCode.coordinator_not_available
        found = partition.log.producers.open_transaction(asked.producer_id)
        if found is None:
            return self._end_of_nothing(partition, asked, owner)
        if _is_about(owner, partition) and owner is not None and owner.status in {ONGOING, *DECIDED}:
            return ErrorCode.invalid_txn_state
        if asked.producer_epoch != _marker_epoch(found, asked.transaction_version):
            return ErrorCode.invalid_producer_epoch
        if owner is not None and asked.producer_epoch > owner.producer_epoch:
            return ErrorCode.invalid_producer_epoch
        newest = max(found.coordinator_epoch, self._leader_epoch)
        if not found.coordinator_epoch <= asked.coordinator_epoch <= newest:
            return ErrorCode.transaction_coordinator_fenced
        return self._write(partition, asked)

    def _end_of_nothing(
        self, partition: Partition, asked: RequestedMarker, owner: TransactionMetadata | None
    ) -> ErrorCode:
        """Write a marker where its producer has no transaction open, as Kafka does: it must fence nobody."""
        if owner is not None and owner.status in {ONGOING, *DECIDED}:
            return ErrorCode.invalid_txn_state
        if not 0 <= asked.producer_id <= PRODUCER_ID_MAX:
            return ErrorCode.invalid_producer_id_mapping
        known_epoch = partition.log.producers.epoch_of(asked.producer_id)
        if owner is not None:
            epoch_max = owner.producer_epoch
        else:
            epoch_max = PRODUCER_EPOCH_MAX if known_epoch == NO_PRODUCER_EPOCH else known_epoch
        if not 0 <= asked.producer_epoch <= epoch_max:
            return ErrorCode.invalid_producer_epoch
        if not NO_COORDINATOR_EPOCH <= asked.coordinator_epoch <= self._leader_epoch:
            return ErrorCode.transaction_coordinator_fenced
        return self._write(partition, asked)

    async def skip_named_ids(self, markers: Sequence[Any]) -> None:
        """Have nobody get a producer id that an administrator names before anybody has it.

        A marker of it may have any epoch, and a producer that got the id would begin below that.
        """
        if self._known_brokers.has_others:
            return
        coming = [
            marker.producer_id
            for marker in markers
            if marker.producer_id <= PRODUCER_ID_MAX and self._producer_ids.may_come(marker.producer_id)
            if any(
                self._is_new(topic.name, index, marker.producer_id)
                for topic in marker.topics
                for index in topic.partition_indexes
            )
        ]
        if coming:
            await self._producer_ids.skip_to(max(coming))

    def _is_new(self, topic: str, index: int, producer_id: int) -> bool:
        """True if a partition knows nothing of a producer."""
        partition = self._known_brokers.partition(topic, index)
        if partition is None or partition.is_offline:
            return False
        return partition.log.producers.epoch_of(producer_id) == NO_PRODUCER_EPOCH

    async def suspects(self, markers: Sequence[Any]) -> Suspects | None:
        """Read a WriteTxnMarkers request. None where a coordinator does not say what it has open."""
        asked = {
            (topic.name, index, marker.producer_id)
            for marker in markers
            for topic in marker.topics
            for index in topic.partition_indexes
        }
        found = {key: first for key in asked if (first := self._first_offset(*key)) is not None}
        busy = await self._known_brokers.open_transactions_of({marker.producer_id for marker in markers})
        return None if busy is None else Suspects(busy, found)

    def _first_offset(self, topic: str, index: int, producer_id: int) -> int | None:
        partition = self._known_brokers.partition(topic, index)
        if partition is None or partition.is_offline:
            return None
        found = partition.log.producers.open_transaction(producer_id)
        return None if found is None else found.first_offset

    def abort_as_asked(self, partition: Partition, asked: RequestedMarker, known: Suspects) -> ErrorCode:
        """Write an administrator's marker in a cluster: KIP-664 has him abort what hangs, and nothing else.

        Errors: cluster_authorization_failed, invalid_txn_state, invalid_producer_epoch, transaction_coordinator_fenced,
        not_leader_or_follower.
        """
        if asked.committed:
            return ErrorCode.cluster_authorization_failed
        if asked.producer_id in known.busy:
            return ErrorCode.invalid_txn_state
        found = partition.log.producers.open_transaction(asked.producer_id)
        if found is None:
            return self._abort_of_nothing(partition, asked)
        if known.open_before.get((partition.topic, partition.index, asked.producer_id)) != found.first_offset:
            return ErrorCode.invalid_txn_state
        if asked.producer_epoch != found.producer_epoch:
            return ErrorCode.invalid_producer_epoch
        # A later one would fence the coordinator. Where none is named yet, administrators say 0.
        if not found.coordinator_epoch <= asked.coordinator_epoch <= max(found.coordinator_epoch, 0):
            return ErrorCode.transaction_coordinator_fenced
        return self._write(partition, asked)

    def _abort_of_nothing(self, partition: Partition, asked: RequestedMarker) -> ErrorCode:
        """Write it where nothing is open. Other brokers know epochs and ids that come next: a producer begins with epoch 0."""
        producers = partition.log.producers
        if asked.producer_epoch != max(producers.epoch_of(asked.producer_id), 0):
            return ErrorCode.invalid_producer_epoch
        known = producers.coordinator_epoch_of(asked.producer_id)
        if not known <= asked.coordinator_epoch <= max(known, 0):
            return ErrorCode.transaction_coordinator_fenced
        return self._write(partition, asked)

    def _write(self, partition: Partition, asked: RequestedMarker) -> ErrorCode:
        error = self._transactions.markers.write(
            partition,
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            asked.transaction_version,
            committed=asked.committed,
        )
        if error is ErrorCode.none:
            marker = "COMMIT" if asked.committed else "ABORT"
            producer = (asked.producer_id, asked.producer_epoch)
            logger.info(
                "%s: a WriteTxnMarkers request has written %s for producer id %d, epoch %d",
                partition,
                marker,
                *producer,
            )
        return error

    def end_after_start(self) -> int:
        """Abort every transaction that hangs after a start; return how many there were.

        After a power cut a partition may have kept records whose Ongoing record is lost. Nobody would ever end that
        transaction, and its readers would wait for ever. The markers of decided transactions are out already: what they did
        not close is of a later one.
        """
        knows_every_id = self._transactions.knows_every_id()
        ended = 0
        for partition in self._topics.partitions():
            for found in partition.log.producers.open_transactions():
                owner = self._transactions.coordinator.ids.owner_of(found.producer_id)
                if owner is not None and owner.status is ONGOING and _is_about(owner, partition):
                    continue
                if owner is None and not knows_every_id:
                    continue
                coordinator_epoch = max(partition.leader_epoch, found.coordinator_epoch)
                self._transactions.markers.write(
                    partition, found.producer_id, found.producer_epoch, coordinator_epoch, 0, committed=False
                )
                ended += 1
        return ended
