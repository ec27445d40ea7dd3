"""ControlledShutdown v2-3: a broker that is about to stop has the controller hand on what it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request

if TYPE_CHECKING:
    from oncelog.broker.cluster.membership import Membership


class Needs(Protocol):
    """What this API needs of the broker."""

    membership: Membership


async def handle(broker: Needs, request: Request) -> Any:
    body, types = request.body, request.types
    error, remaining = await broker.membership.controller.shut_down_broker(body.broker_id, body.broker_epoch)
    return request.answer(
        error_code=error,
        remaining_partitions=tuple(
            types.RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
        ),
    )
