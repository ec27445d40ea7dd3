"""DeleteGroups v0-2: groups without members, with all the offsets they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    return request.answer(
        results=tuple(
            request.types.DeletableGroupResult(group_id=group, error_code=broker.offsets.delete_group(group))
            for group in dict.fromkeys(request.body.groups_names)
        )
    )
