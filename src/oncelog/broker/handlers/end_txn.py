"""EndTxn v0-5: commits or aborts the open transaction. An answer without an error survives a power cut.

Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH; v5 bumps the epoch with every transaction and answers the
producer id and epoch of the next one (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Reply, Request
from oncelog.broker.topics import TRANSACTION_STATE
from oncelog.coordination import Parked
from oncelog.transactions import EndTransactionAnswer
from oncelog.transactions.versions import end_bumps_epoch, transaction_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    if broker.topics.named(TRANSACTION_STATE) is None:
        return _answer(request, EndTransactionAnswer(ErrorCode.not_coordinator))
    reply: Parked[Any] = Parked()
    broker.transactions.end(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        committed=body.committed,
        tv2=end_bumps_epoch(request.version),
    ).then(lambda answer: reply.release(_answer(request, answer)))
    return reply


def _answer(request: Request, answer: EndTransactionAnswer) -> Any:
    return request.answer(
        error_code=transaction_error(answer.error, request.version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
