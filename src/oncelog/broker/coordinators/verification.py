"""Checks before an append whether its partitions are part of the producer's open transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog.broker.coordinators.session_guard import Place, SessionGuard, TransactionalProducer
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.transactions import TopicPartition
from oncelog.wire import ErrorCode


class PartitionVerification(Protocol):
    """Asks the transaction coordinator, which is here for a broker that is alone, and may be elsewhere in a cluster."""

    async def check(
        self,
        request: Request,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        places: Sequence[Place],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode] | None:
        """Return the error of each partition; None if the request comes late, and gets no answer.

        With `adds`, by producers of the second generation, the partitions become part of the transaction.
        No wait may come between this and the append.
        """
        ...


class OwnVerification:
    """The verification of a broker that is alone: it coordinates every transaction."""

    def __init__(self, session_guard: SessionGuard, transactions: Transactions) -> None:
        self._session_guard = session_guard
        self._transactions = transactions

    async def check(
        self,
        request: Request,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        places: Sequence[Place],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode] | None:
        if adds:
            # Such a request cannot be late: its transaction has an epoch of its own.
            error = await self._transactions.add_partitions(*producer, partitions, tv2=True)
            return dict.fromkeys(partitions, error)
        if not self._session_guard.admits(request, producer, places):
            return None
        return self._transactions.verify(*producer, partitions)
