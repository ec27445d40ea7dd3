"""IncrementalAlterConfigs v0-1: changes single settings of topics, groups and brokers, and leaves the others (KIP-339)."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.altering import Alter, Alteration, Alterations, Outcome, alter_each, step_by_step
from oncelog.environment import Clock


async def handle(request: Request, alterations: Alterations, clock: Clock) -> Any:
    turn = Turn(clock)
    resources = await turn.each(request.body.resources, _asked)
    alter_one = alterations.alter_one(validate_only=request.body.validate_only)
    return await answer(request, turn, await alter_each(clock, resources, alter_one))


def _asked(resource: Any) -> tuple[int, str, Alter]:
    steps = [Alteration(item.name, item.config_operation, item.value) for item in resource.configs]
    return resource.resource_type, resource.resource_name, step_by_step(steps)


async def answer(request: Request, turn: Turn, outcomes: list[Outcome]) -> Any:
    def response(outcome: tuple[Any, Outcome]) -> Any:
        resource, (error, message) = outcome
        return request.types.AlterConfigsResourceResponse(
            error_code=error,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return request.answer(responses=await turn.each(zip(request.body.resources, outcomes, strict=True), response))
