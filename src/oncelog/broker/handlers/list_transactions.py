"""ListTransactions v0-2: the transactional ids of this broker (KIP-664). v1 filters by age, v2 by a pattern of the id."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn, parts
from oncelog.environment import Clock
from oncelog.transactions import TransactionMetadata, listing
from oncelog.wire import ErrorCode

LOOKED_AT_AT_ONCE = 2000
"""Transactional ids, after which others are served."""


async def handle(request: Request, clock: Clock, transactions: Transactions) -> Any:
    body = request.body
    if transactions.elections.is_loading:
        # As Kafka's TransactionStateManager: the client wants them all.
        return request.answer(
            error_code=ErrorCode.coordinator_load_in_progress, unknown_state_filters=(), transaction_states=()
        )
    turn = Turn(clock)
    states: list[Any] = []
    for part in parts(tuple(transactions.coordinator.transactions()), LOOKED_AT_AT_ONCE):
        listed = listing(
            part,
            clock.now_ms(),
            states=body.state_filters,
            producer_ids=body.producer_id_filters,
            longer_than_ms=getattr(body, "duration_filter", -1),
            id_pattern=getattr(body, "transactional_id_pattern", None),
        )
        states += await turn.each(listed.transactions, partial(_state, request))
        if turn.is_over:
            await turn.rest()
    return request.answer(
        error_code=listed.error, unknown_state_filters=listed.unknown_states, transaction_states=tuple(states)
    )


def _state(request: Request, metadata: TransactionMetadata) -> Any:
    return request.types.TransactionState(
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        transaction_state=metadata.status.label,
    )
