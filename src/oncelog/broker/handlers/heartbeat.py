"""Heartbeat v0-4: a member of a group is alive, and hears whether it has to join again. v3 static members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request

if TYPE_CHECKING:
    from oncelog.broker.coordinators.memberships import Memberships


class Needs(Protocol):
    """What this API needs of the broker."""

    memberships: Memberships


def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    error = broker.memberships.heartbeat(
        body.group_id, body.member_id, getattr(body, "group_instance_id", None), body.generation_id
    )
    return request.answer(error_code=error)
