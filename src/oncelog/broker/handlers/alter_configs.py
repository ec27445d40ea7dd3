"""AlterConfigs v0-2: replaces all the settings that a topic, group or broker has of its own; what is not named goes."""

from __future__ import annotations

from typing import Any

from oncelog.broker.handlers.incremental_alter_configs import answer
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.altering import Alter, Alteration, Alterations, Operation, all_anew, alter_each
from oncelog.environment import Clock


async def handle(request: Request, alterations: Alterations, clock: Clock) -> Any:
    turn = Turn(clock)
    resources = await turn.each(request.body.resources, _asked)
    alter_one = alterations.alter_one(validate_only=request.body.validate_only)
    return await answer(request, turn, await alter_each(clock, resources, alter_one))


def _asked(resource: Any) -> tuple[int, str, Alter]:
    values = [Alteration(item.name, Operation.SET, item.value) for item in resource.configs]
    return resource.resource_type, resource.resource_name, all_anew(values)
