"""EndTxn v0-5: commits or aborts the open transaction. An answer without an error survives a power cut.

Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH; v5 bumps the epoch with every transaction and answers the
producer id and epoch of the next one (KIP-890).
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.session_guard import FixedPlace, SessionGuard, TransactionalProducer
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.transactions import EndTransactionAnswer
from oncelog.transactions.versions import end_bumps_epoch, transaction_error


async def handle(request: Request, session_guard: SessionGuard, transactions: Transactions) -> Any:
    body = request.body
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    tv2 = end_bumps_epoch(request.version)
    if not (tv2 or session_guard.admits(request, producer, [FixedPlace.END], ends_transaction=True)):
        return None
    answer = await transactions.end(*producer, committed=body.committed, tv2=tv2)
    return _answer(request, answer)


def _answer(request: Request, answer: EndTransactionAnswer) -> Any:
    return request.answer(
        error_code=transaction_error(answer.error, request.version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
