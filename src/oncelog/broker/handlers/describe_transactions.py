"""DescribeTransactions v0: the state of transactional ids, and the partitions of what is open (KIP-664)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.environment import Clock
from oncelog.transactions import TransactionMetadata
from oncelog.wire import ErrorCode

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(request: Request, clock: Clock, transactions: Transactions) -> Any:
    asked = request.body.transactional_ids
    states = await Turn(clock).each(asked, lambda transactional_id: _state(transactions, request, transactional_id))
    return request.answer(transaction_states=states)


def _state(transactions: Transactions, request: Request, transactional_id: str) -> Any:
    types = request.types
    found = transactions.describe(transactional_id)
    if found.metadata is None:
        return types.TransactionState(
            error_code=found.error,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=timedelta(0),
            transaction_start_time=EPOCH,
            producer_id=-1,
            producer_epoch=-1,
            topics=(),
        )
    metadata = found.metadata
    return types.TransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=metadata.status.label,
        transaction_timeout=timedelta(milliseconds=metadata.timeout_ms),
        # -1, for a transaction that was never begun, is a moment before 1970 to the codec.
        transaction_start_time=EPOCH + timedelta(milliseconds=metadata.start_ms),
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=_topics(types, metadata),
    )


def _topics(types: Any, metadata: TransactionMetadata) -> tuple[Any, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(index)
    return tuple(types.TopicData(topic=topic, partitions=tuple(indexes)) for topic, indexes in by_topic.items())
