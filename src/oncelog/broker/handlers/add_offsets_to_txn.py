"""AddOffsetsToTxn v0-4: adds the partition that holds a group's offsets to the open transaction.

Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.session_guard import FixedPlace, SessionGuard, TransactionalProducer
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode


async def handle(
    request: Request,
    auto_creation: AutoTopicCreation,
    offsets: CommittedOffsets,
    session_guard: SessionGuard,
    transactions: Transactions,
) -> Any:
    body = request.body
    error = transactions.error(body.transactional_id)
    if error is not ErrorCode.none:
        return request.answer(error_code=error)
    await auto_creation.create_internal(CONSUMER_OFFSETS)
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    if not session_guard.admits(request, producer, [FixedPlace.OFFSETS]):
        return None
    home = (CONSUMER_OFFSETS, offsets.partition_for(body.group_id))
    error = await transactions.add_partitions(*producer, [home], tv2=False)
    return request.answer(error_code=transaction_error(error, request.version))
