"""SyncGroup v0-5: the leader brings everybody's assignment, the others wait for theirs. v3 static members, v5 the protocol."""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.request import Request
from oncelog.groups import SyncAnswer, SyncRequest
from oncelog.wire import ErrorCode

PROTOCOL_VERSION = 5


async def handle(request: Request, memberships: Memberships) -> Any:
    body = request.body
    if request.version >= PROTOCOL_VERSION and (body.protocol_type is None or body.protocol_name is None):
        return _answer(request, SyncAnswer(ErrorCode.inconsistent_group_protocol))
    answer = await memberships.sync(
        SyncRequest(
            group=body.group_id,
            member_id=body.member_id,
            instance_id=getattr(body, "group_instance_id", None),
            generation=body.generation_id,
            protocol_type=getattr(body, "protocol_type", None),
            protocol=getattr(body, "protocol_name", None),
            assignments={given.member_id: bytes(given.assignment) for given in body.assignments},
        )
    )
    return _answer(request, answer)


def _answer(request: Request, answer: SyncAnswer) -> Any:
    return request.answer(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
