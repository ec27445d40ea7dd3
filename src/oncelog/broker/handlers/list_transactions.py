"""ListTransactions v0-2: the transactional ids of this broker (KIP-664). v1 filters by age, v2 by a pattern of the id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request

if TYPE_CHECKING:
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    transactions: Transactions


def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    listing = broker.transactions.coordinator.list_transactions(
        broker.clock.now_ms(),
        states=body.state_filters,
        producer_ids=body.producer_id_filters,
        longer_than_ms=getattr(body, "duration_filter", -1),
        id_pattern=getattr(body, "transactional_id_pattern", None),
    )
    return request.answer(
        error_code=listing.error,
        unknown_state_filters=listing.unknown_states,
        transaction_states=tuple(
            request.types.TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.status.label,
            )
            for metadata in listing.transactions
        ),
    )
