"""LeaveGroup v0-5: members go, without waiting for their sessions to end. v3 several, also by instance id; v5 a reason."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.environment import Clock
from oncelog.groups import Leaving
from oncelog.wire import ErrorCode

BATCHED_FROM_VERSION = 3


async def handle(request: Request, clock: Clock, memberships: Memberships) -> Any:
    body = request.body
    if request.version < BATCHED_FROM_VERSION:
        answer = await memberships.leave(body.group_id, [Leaving(body.member_id)])
        return request.answer(error_code=answer.errors[0] if answer.error is ErrorCode.none else answer.error)
    turn = Turn(clock)
    leaving = await turn.each(body.members, lambda member: Leaving(member.member_id, member.group_instance_id))
    answer = await memberships.leave(body.group_id, leaving)
    # An error of the group is told once, and of no member: who has left may not be certain.
    told = zip(leaving, answer.errors, strict=True) if answer.error is ErrorCode.none else ()
    return request.answer(error_code=answer.error, members=await turn.each(told, partial(_member, request)))


def _member(request: Request, told: tuple[Leaving, ErrorCode]) -> Any:
    member, error = told
    return request.types.MemberResponse(
        member_id=member.member_id, group_instance_id=member.instance_id, error_code=error
    )
