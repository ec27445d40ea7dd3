"""Writing what is decided about transactional ids: each record goes to the partition of `__transaction_state` that owns its id."""

from __future__ import annotations

import logging

from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import TRANSACTION_STATE, Topics
from oncelog.coordination.internal_topics import client_error
from oncelog.log import Appended, Origin
from oncelog.records import build_batch, read_header
from oncelog.transactions import TransactionCoordinator, TransactionRecord, encode, record_version
from oncelog.transactions.transitions import news
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.transactions")

_NONE = ErrorCode.none
_COORDINATOR, _OBLIGED = Origin.COORDINATOR, Origin.OBLIGED


class TransactionLog:
    """The log of one broker's transaction coordinator. Each wait ends with not_coordinator if the term changes meanwhile."""

    def __init__(
        self,
        durability: Durability,
        known_brokers: KnownBrokers,
        topics: Topics,
        coordinator: TransactionCoordinator,
        elections: Elections,
    ) -> None:
        self._durability = durability
        self._known_brokers = known_brokers
        self._topics = topics
        self._coordinator = coordinator
        self._elections = elections

    def append_asked(self, record: TransactionRecord) -> ErrorCode:
        """Write what a client asked for and make it true; or say what it is told when that cannot be."""
        return self._append(record, _COORDINATOR)

    def append(self, record: TransactionRecord) -> ErrorCode:
        """Write what follows from what was taken before, and make it true."""
        return self._append(record, _OBLIGED)

    def _append(self, record: TransactionRecord, origin: Origin) -> ErrorCode:
        index = self._coordinator.partition_for(record.transactional_id)
        error = self._write(index, record, origin)
        if error is _NONE:
            if logger.isEnabledFor(logging.INFO):
                self._say(record)
            self._coordinator.ids.replay(index, record)
        return error

    def _say(self, record: TransactionRecord) -> None:
        text = news(self._coordinator.ids.metadata(record.transactional_id), record)
        if text is not None:
            logger.info("%s: %s", record.transactional_id, text)

    def write(self, record: TransactionRecord) -> ErrorCode:
        """Write what follows from what was taken before. `replay` makes it true, later."""
        return self._write(self._coordinator.partition_for(record.transactional_id), record, _OBLIGED)

    def _write(self, index: int, record: TransactionRecord, origin: Origin) -> ErrorCode:
        partition = self._partition(index)
        version = record_version(record, self._coordinator.transaction_version)
        batch = build_batch([encode(record, version)], leader_epoch=partition.leader_epoch)
        result = partition.append(batch, read_header(batch), origin)
        return _NONE if isinstance(result, Appended) else client_error(result.error)

    def replay(self, record: TransactionRecord) -> None:
        self._coordinator.ids.replay(self._coordinator.partition_for(record.transactional_id), record)

    async def committed(self, transactional_id: str) -> ErrorCode:
        """Wait until what is known of the id now cannot be lost with this broker. One that is alone waits for nothing."""
        if not self._known_brokers.has_others:
            return _NONE
        index = self._coordinator.partition_for(transactional_id)
        term = self._elections.term(index)
        error = await self._known_brokers.committed(self._partition(index))
        return client_error(error) if self._elections.term(index) is term else ErrorCode.not_coordinator

    async def durable(self, transactional_id: str) -> ErrorCode:
        """The same, and until it would survive a power cut here."""
        index = self._coordinator.partition_for(transactional_id)
        term = self._elections.term(index)
        is_durable = await self._durability.make_durable([self._partition(index).log])
        if not is_durable or self._elections.term(index) is not term:
            return ErrorCode.not_coordinator
        return await self.committed(transactional_id)

    def _partition(self, index: int) -> Partition:
        partition = self._topics.partition(TRANSACTION_STATE, index)
        assert partition is not None, index
        return partition


def transaction_coordinator(
    settings: Settings, partition_count: int, transaction_version: int
) -> TransactionCoordinator:
    """The coordinator as the settings of the broker ask for it."""
    return TransactionCoordinator(
        partition_count,
        transaction_version=transaction_version,
        timeout_max_ms=settings.number("transaction.max.timeout.ms"),
        id_expiration_ms=settings.number("transactional.id.expiration.ms"),
    )
