"""IncrementalAlterConfigs v0-1: changes single settings of topics, groups and brokers, and leaves the others (KIP-339)."""

from __future__ import annotations

from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.storage import altering
from oncelog.broker.storage.altering import Alteration, Outcome, alter_each, step_by_step


async def handle(broker: altering.Needs, request: Request) -> Any:
    body = request.body
    resources = [
        (
            resource.resource_type,
            resource.resource_name,
            step_by_step([Alteration(item.name, item.config_operation, item.value) for item in resource.configs]),
        )
        for resource in body.resources
    ]
    return answer(request, await alter_each(broker, resources, validate_only=body.validate_only))


def answer(request: Request, outcomes: list[Outcome]) -> Any:
    return request.answer(
        responses=tuple(
            request.types.AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, (error, message) in zip(request.body.resources, outcomes, strict=True)
        )
    )
