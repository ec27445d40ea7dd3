"""LeaveGroup v0-5: members go, without waiting for their sessions to end. v3 several, also by instance id; v5 a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.groups import LeaveAnswer, Leaving
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.memberships import Memberships

BATCHED_FROM_VERSION = 3


class Needs(Protocol):
    """What this API needs of the broker."""

    memberships: Memberships


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    if request.version < BATCHED_FROM_VERSION:
        leaving = [Leaving(body.member_id)]
    else:
        leaving = [Leaving(member.member_id, member.group_instance_id) for member in body.members]
    return _answer(request, leaving, await broker.memberships.leave(body.group_id, leaving))


def _answer(request: Request, leaving: list[Leaving], answer: LeaveAnswer) -> Any:
    if request.version < BATCHED_FROM_VERSION:
        return request.answer(error_code=next(iter(answer.errors), answer.error))
    failed = answer.error is not ErrorCode.none
    return request.answer(
        error_code=answer.error,
        members=tuple(
            request.types.MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=error
            )
            for member, error in zip(leaving if not failed else (), answer.errors, strict=True)
        ),
    )
