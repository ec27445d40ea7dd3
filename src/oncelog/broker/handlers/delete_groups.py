"""DeleteGroups v0-2: groups without members, with all the offsets they have."""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.environment import Clock


async def handle(request: Request, clock: Clock, offsets: CommittedOffsets) -> Any:
    turn = Turn(clock)
    results = []
    for group in dict.fromkeys(request.body.groups_names):
        error = await offsets.delete_group(group)
        results.append(request.types.DeletableGroupResult(group_id=group, error_code=error))
        if turn.is_over:
            await turn.rest()
    return request.answer(results=tuple(results))
