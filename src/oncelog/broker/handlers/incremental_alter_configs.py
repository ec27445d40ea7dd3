"""IncrementalAlterConfigs v0-1: changes single settings of topics and brokers, and leaves the others (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.altering import Alteration, Outcome, alter_each, step_by_step
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.coordination import all_of

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    resources = [
        (
            resource.resource_type,
            resource.resource_name,
            step_by_step([Alteration(item.name, item.config_operation, item.value) for item in resource.configs]),
        )
        for resource in body.resources
    ]
    outcomes = all_of(alter_each(broker, resources, validate_only=body.validate_only))
    return reply_when(outcomes, lambda: answer(request, outcomes.value))


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
