"""DescribeGroups v0-6: the members of groups of the classic protocol, and what they were assigned.

v4 instance ids. A group that is not there is described as Dead; v6 says GROUP_ID_NOT_FOUND as well (KIP-1043).
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct

NOT_FOUND_VERSION = 6
DEAD = "Dead"
# Without access control lists everybody may READ (3), DELETE (6), DESCRIBE (8), and DESCRIBE_CONFIGS, ALTER_CONFIGS (10, 11).
EVERY_OPERATION = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_ASKED_FOR = -(2**31)


async def handle(request: Request, clock: Clock, offsets: CommittedOffsets) -> Any:
    groups = await Turn(clock).each(request.body.groups, lambda group: _group(offsets, request, group))
    return request.answer(groups=groups)


def _group(offsets: CommittedOffsets, request: Request, name: str) -> Any:
    types = request.types
    error = offsets.error(name)
    if error is not ErrorCode.none:
        return construct(
            types.DescribedGroup,
            error_code=error,
            group_id=name,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
            authorized_operations=NOT_ASKED_FOR,
        )
    found = offsets.coordinator.describe(name)
    is_missing = found.state == DEAD and request.version >= NOT_FOUND_VERSION
    with_operations = getattr(request.body, "include_authorized_operations", False) and not is_missing
    return construct(
        types.DescribedGroup,
        error_code=ErrorCode.group_id_not_found if is_missing else ErrorCode.none,
        error_message=f"Group {name} not found." if is_missing else None,
        group_id=name,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            construct(
                types.DescribedGroupMember,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.subscription,
                member_assignment=member.assignment,
            )
            for member in found.members
        ),
        authorized_operations=EVERY_OPERATION if with_operations else NOT_ASKED_FOR,
    )
