"""ListConfigResources v0-1: what can have settings of its own; v0 knows only client metrics (KIP-1142).

Every topic is one, the broker, and each group that has settings. Nobody subscribes to client metrics here.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.config.group_configuration import GroupConfigs
from oncelog.broker.request import Request
from oncelog.broker.storage.altering import ResourceType
from oncelog.broker.storage.topics import Topics
from oncelog.wire import ErrorCode, construct


def handle(request: Request, group_configs: GroupConfigs, node_id: int, topics: Topics) -> Any:
    asked = getattr(request.body, "resource_types", (ResourceType.CLIENT_METRICS,)) or tuple(ResourceType)
    if any(kind not in tuple(ResourceType) for kind in asked):
        return request.answer(error_code=ErrorCode.unsupported_version, config_resources=())
    names = {
        ResourceType.TOPIC: [topic.name for topic in topics],
        ResourceType.BROKER: [str(node_id)],
        ResourceType.GROUP: list(group_configs.names()),
    }
    return request.answer(
        error_code=ErrorCode.none,
        config_resources=tuple(
            construct(request.types.ConfigResource, resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in asked
            for name in found
        ),
    )
