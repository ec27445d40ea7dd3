"""AllocateProducerIds v0: a broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.cluster.membership import Membership


class Needs(Protocol):
    """What this API needs of the broker."""

    membership: Membership


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    block = await broker.membership.controller.allocate_producer_ids(body.broker_id, body.broker_epoch)
    if isinstance(block, ErrorCode):
        return request.answer(error_code=block, producer_id_start=0, producer_id_len=0)
    return request.answer(
        error_code=ErrorCode.none, producer_id_start=block.first, producer_id_len=block.last - block.first + 1
    )
