"""AddOffsetsToTxn v0-4: adds the partition that holds a group's offsets to the open transaction.

Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.auto_creation import create_internal
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.broker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.coordination import Parked
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    if broker.topics.named(TRANSACTION_STATE) is None:
        return request.answer(error_code=ErrorCode.not_coordinator)
    return reply_when(create_internal(broker, CONSUMER_OFFSETS), lambda: _add(broker, request))


def _add(broker: Broker, request: Request) -> Reply:
    body = request.body
    reply: Parked[Any] = Parked()
    broker.transactions.add_partitions(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        [(CONSUMER_OFFSETS, broker.offsets.partition_for(body.group_id))],
        tv2=False,
    ).then(lambda error: reply.release(request.answer(error_code=transaction_error(error, request.version))))
    return reply
