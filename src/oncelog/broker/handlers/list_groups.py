"""ListGroups v0-5: every group of this broker. v4 those in some states (KIP-518), v5 those of some types (KIP-848)."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn, parts
from oncelog.environment import Clock
from oncelog.groups import ListedGroup
from oncelog.wire import ErrorCode, construct

LOOKED_AT_AT_ONCE = 500
"""Groups, after which others are served."""


async def handle(request: Request, clock: Clock, offsets: CommittedOffsets) -> Any:
    states, types = _names(request, "states_filter"), _names(request, "types_filter")
    coordinator = offsets.coordinator
    turn = Turn(clock)
    groups: list[Any] = []
    is_loading = offsets.is_loading
    for part in parts(coordinator.members.names(), LOOKED_AT_AT_ONCE):
        served = [name for name in part if offsets.error(name) is ErrorCode.none] if is_loading else part
        groups += await turn.each(coordinator.list_groups(served, states, types), partial(_group, request))
        if turn.is_over:
            await turn.rest()
    # As Kafka's GroupCoordinator: those that are known are named all the same.
    error = ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.none
    return request.answer(error_code=error, groups=tuple(groups))


def _names(request: Request, field: str) -> frozenset[str]:
    """They are written in any case."""
    return frozenset(name.strip().lower() for name in getattr(request.body, field, ()))


def _group(request: Request, group: ListedGroup) -> Any:
    return construct(
        request.types.ListedGroup,
        group_id=group.group,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.type,
    )
