"""ConsumerGroupHeartbeat v0-1: joins a consumer group, stays in it or leaves it (KIP-848).

v1 members choose their own ids, and may subscribe with a regular expression. The answer has what is assigned to the
member when it is new to it.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.features import FinalizedFeatures
from oncelog.broker.request import MILLISECOND, Request, milliseconds
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.groups.consumer import Assignment, HeartbeatAnswer, HeartbeatRequest, by_topic
from oncelog.wire import ErrorCode


async def handle(
    request: Request, auto_creation: AutoTopicCreation, features: FinalizedFeatures, memberships: Memberships
) -> Any:
    if not (memberships.serves_consumer_groups and features.has_consumer_groups):
        return _refused(request, ErrorCode.unsupported_version)
    await auto_creation.create_internal(CONSUMER_OFFSETS)
    error = memberships.error(request.body.group_id)
    if error is not ErrorCode.none:
        return _refused(request, error)
    return _answer(request, await memberships.consumer_heartbeat(_heartbeat_request(request)))


def _refused(request: Request, error: ErrorCode) -> Any:
    return request.answer(error_code=error, member_epoch=0, heartbeat_interval=0 * MILLISECOND)


def _answer(request: Request, answer: HeartbeatAnswer) -> Any:
    return request.answer(
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * MILLISECOND,
        assignment=None if answer.assignment is None else _assignment(request.types, answer.assignment),
    )


def _heartbeat_request(request: Request) -> HeartbeatRequest:
    body = request.body
    owned = body.topic_partitions
    return HeartbeatRequest(
        group=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack=body.rack_id,
        rebalance_timeout_ms=milliseconds(body.rebalance_timeout),
        topics=body.subscribed_topic_names,
        regex=getattr(body, "subscribed_topic_regex", None),
        assignor=body.server_assignor,
        owned=None if owned is None else frozenset((one.topic_id, index) for one in owned for index in one.partitions),
        client_id=request.client_id or "",
        # As Kafka's tools show it: a Java address without a name.
        client_host=f"/{request.connection.peer_host}",
        version=request.version,
    )


def _assignment(types: Any, assignment: Assignment) -> Any:
    return types.Assignment(
        topic_partitions=tuple(
            types.TopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in by_topic(assignment).items()
        )
    )
