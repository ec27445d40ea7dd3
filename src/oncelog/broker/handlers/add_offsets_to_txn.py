"""AddOffsetsToTxn v0-4: adds the partition that holds a group's offsets to the open transaction.

Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.coordinators.session_guard import FixedPlace, SessionGuard, TransactionalProducer
from oncelog.broker.request import Request
from oncelog.broker.storage import auto_creation
from oncelog.broker.storage.auto_creation import create_internal
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions


class Needs(auto_creation.Needs, Protocol):
    """What this API needs of the broker."""

    offsets: CommittedOffsets
    session_guard: SessionGuard
    transactions: Transactions


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    error = broker.transactions.error(body.transactional_id)
    if error is not ErrorCode.none:
        return request.answer(error_code=error)
    await create_internal(broker, CONSUMER_OFFSETS)
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    if not broker.session_guard.admits(request, producer, [FixedPlace.OFFSETS]):
        return None
    home = (CONSUMER_OFFSETS, broker.offsets.partition_for(body.group_id))
    error = await broker.transactions.add_partitions(*producer, [home], tv2=False)
    return request.answer(error_code=transaction_error(error, request.version))
