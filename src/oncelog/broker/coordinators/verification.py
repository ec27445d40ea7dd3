"""Asking the transaction coordinator whether a transaction contains a partition, before the first of its batches is appended.

KIP-890: without that a batch that comes late would begin a transaction which nobody ends. For a producer of the second
generation, which leaves that to brokers, the partition is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from oncelog.broker.coordinators.session_guard import Place, SessionGuard, TransactionalProducer
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]
Verified: TypeAlias = dict[TopicPartition, ErrorCode]


class TransactionVerification(Protocol):
    """No wait may come between its answer and the appends. Errors: those of the coordinator, and of asking it."""

    async def verify(
        self,
        request: Request,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        places: Sequence[Place],
    ) -> Verified | None:
        """Whether each is part of the producer's open transaction. None if the request comes late: it has no answer."""
        ...

    async def add(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Verified:
        """Have each in the producer's transaction, which begins where none is open."""
        ...


class OwnVerification:
    """Every transaction is coordinated here, and so every connection of its producer is known."""

    def __init__(self, transactions: Transactions, session_guard: SessionGuard) -> None:
        self._transactions = transactions
        self._session_guard = session_guard

    async def verify(
        self,
        request: Request,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        places: Sequence[Place],
    ) -> Verified | None:
        if not self._session_guard.admits(request, producer, places):
            return None
        return self._transactions.verify(*producer, partitions)

    async def add(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Verified:
        error = await self._transactions.add_partitions(*producer, partitions, tv2=True)
        return dict.fromkeys(partitions, error)
