"""InitProducerId v0-5: a producer id and epoch. With a transactional id, the producer that had it before is fenced.

v3 lets a producer bump its own epoch (KIP-360); before v4 a fenced one is told INVALID_PRODUCER_EPOCH. v6, two-phase commit
(KIP-939), is not served.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request, milliseconds
from oncelog.transactions import InitProducerIdAnswer
from oncelog.transactions.versions import init_producer_id_error
from oncelog.wire import ErrorCode


async def handle(request: Request, transactions: Transactions) -> Any:
    body = request.body
    if body.transactional_id is not None:
        error = transactions.error(body.transactional_id)
        if error is not ErrorCode.none:
            return _answer(request, InitProducerIdAnswer(error))
    answer = await transactions.init_producer_id(
        body.transactional_id,
        milliseconds(body.transaction_timeout),
        getattr(body, "producer_id", -1),
        getattr(body, "producer_epoch", -1),
    )
    return _answer(request, answer)


def _answer(request: Request, answer: InitProducerIdAnswer) -> Any:
    return request.answer(
        error_code=init_producer_id_error(answer.error, request.version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
