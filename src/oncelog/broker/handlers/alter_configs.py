"""AlterConfigs v0-2: replaces all the settings that a topic, group or broker has of its own; what is not named goes."""

from __future__ import annotations

from typing import Any

from oncelog.broker.handlers.incremental_alter_configs import answer
from oncelog.broker.request import Request
from oncelog.broker.storage import altering
from oncelog.broker.storage.altering import Alteration, Operation, all_anew, alter_each


async def handle(broker: altering.Needs, request: Request) -> Any:
    body = request.body
    resources = [
        (
            resource.resource_type,
            resource.resource_name,
            all_anew([Alteration(item.name, Operation.SET, item.value) for item in resource.configs]),
        )
        for resource in body.resources
    ]
    return answer(request, await alter_each(broker, resources, validate_only=body.validate_only))
