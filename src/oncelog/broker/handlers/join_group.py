"""JoinGroup v0-9: becomes a member of a group, or says again that one is; the answer comes when the generation begins.

v1 the rebalance timeout, v4 the member id must be known (KIP-394), v5 static members (KIP-345), v7 the protocol's type in
the answer, v8 a reason (KIP-800), v9 a leader that need not assign (KIP-814).
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.request import Request, milliseconds
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.groups import JoinAnswer, JoinRequest
from oncelog.wire import construct

REBALANCE_TIMEOUT_VERSION = 1
KNOWN_MEMBER_ID_VERSION = 4
NULLABLE_PROTOCOL_VERSION = 7
SKIP_ASSIGNMENT_VERSION = 9


async def handle(request: Request, auto_creation: AutoTopicCreation, memberships: Memberships) -> Any:
    await auto_creation.create_internal(CONSUMER_OFFSETS)
    return _answer(request, await memberships.join(_join_request(request)))


def _join_request(request: Request) -> JoinRequest:
    body = request.body
    session_timeout_ms = milliseconds(body.session_timeout)
    has_rebalance_timeout = request.version >= REBALANCE_TIMEOUT_VERSION
    protocols: dict[str, bytes] = {}
    for protocol in body.protocols:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return JoinRequest(
        group=body.group_id,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        client_id=request.client_id or "",
        # As Kafka's tools show it: a Java address without a name.
        client_host=f"/{request.connection.peer_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=milliseconds(body.rebalance_timeout) if has_rebalance_timeout else session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(protocols.items()),
        needs_member_id=request.version >= KNOWN_MEMBER_ID_VERSION,
        may_skip_assignment=request.version >= SKIP_ASSIGNMENT_VERSION,
    )


def _answer(request: Request, answer: JoinAnswer) -> Any:
    protocol = answer.protocol
    if protocol is None and request.version < NULLABLE_PROTOCOL_VERSION:
        protocol = ""
    return request.answer(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            construct(
                request.types.JoinGroupResponseMember,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.subscription,
            )
            for member in answer.members
        ),
    )
