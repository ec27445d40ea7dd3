"""DeleteGroups v0-2: groups without members, with all the offsets they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    offsets: CommittedOffsets


async def handle(broker: Needs, request: Request) -> Any:
    def delete(group: str) -> Any:
        return request.types.DeletableGroupResult(group_id=group, error_code=broker.offsets.delete_group(group))

    return request.answer(results=await Turn(broker.clock).each(dict.fromkeys(request.body.groups_names), delete))
