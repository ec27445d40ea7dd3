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
    turn = Turn(broker.clock)
    results = []
    for group in dict.fromkeys(request.body.groups_names):
        error = await broker.offsets.delete_group(group)
        results.append(request.types.DeletableGroupResult(group_id=group, error_code=error))
        if turn.is_over:
            await turn.rest()
    return request.answer(results=tuple(results))
