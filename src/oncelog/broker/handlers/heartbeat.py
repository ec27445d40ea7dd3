"""Heartbeat v0-4: a member of a group is alive, and hears whether it has to join again. v3 static members."""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.request import Request


def handle(request: Request, memberships: Memberships) -> Any:
    body = request.body
    error = memberships.heartbeat(
        body.group_id, body.member_id, getattr(body, "group_instance_id", None), body.generation_id
    )
    return request.answer(error_code=error)
