"""InitProducerId v0-5: a producer id and epoch. With a transactional id, whoever had it before is fenced.

v3 lets a producer bump its own epoch (KIP-360); before v4 a fenced one is told INVALID_PRODUCER_EPOCH. v6, two-phase commit
(KIP-939), is not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.handlers.timeouts import milliseconds
from oncelog.broker.request import Reply, Request
from oncelog.broker.topics import TRANSACTION_STATE
from oncelog.coordination import Parked
from oncelog.transactions import InitProducerIdAnswer
from oncelog.transactions.versions import init_producer_id_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    if body.transactional_id is not None and broker.topics.named(TRANSACTION_STATE) is None:
        return _answer(request, InitProducerIdAnswer(ErrorCode.not_coordinator))
    reply: Parked[Any] = Parked()
    broker.transactions.init_producer_id(
        body.transactional_id,
        milliseconds(body.transaction_timeout),
        getattr(body, "producer_id", -1),
        getattr(body, "producer_epoch", -1),
    ).then(lambda answer: reply.release(_answer(request, answer)))
    return reply


def _answer(request: Request, answer: InitProducerIdAnswer) -> Any:
    return request.answer(
        error_code=init_producer_id_error(answer.error, request.version),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
