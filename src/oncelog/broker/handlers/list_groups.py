"""ListGroups v0-5: every group of this broker. v4 those in some states (KIP-518), v5 those of some types (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets


class Needs(Protocol):
    """What this API needs of the broker."""

    offsets: CommittedOffsets


def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    listed = broker.offsets.coordinator.list_groups(
        getattr(body, "states_filter", ()), getattr(body, "types_filter", ())
    )
    return request.answer(
        error_code=ErrorCode.none,
        groups=tuple(
            construct(
                request.types.ListedGroup,
                group_id=group.group,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for group in listed
        ),
    )
