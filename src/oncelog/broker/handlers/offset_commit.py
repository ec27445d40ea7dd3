"""OffsetCommit v2-10: stores a group's offsets. v9 is for the groups of KIP-848, v10 names topics by id.

Up to v4 a client may say how long its offsets are to be kept; before v9 a generation of a group that is not there is
ILLEGAL_GENERATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.auto_creation import create_internal
from oncelog.broker.handlers.timeouts import milliseconds
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.broker.topics import CONSUMER_OFFSETS, Topic
from oncelog.groups import MemberFacts, OffsetToCommit
from oncelog.groups.versions import offset_commit_error
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

TOPIC_ID_FROM_VERSION = 10


def handle(broker: Broker, request: Request) -> Reply:
    return reply_when(create_internal(broker, CONSUMER_OFFSETS), lambda: _commit(broker, request))


def _commit(broker: Broker, request: Request) -> Any:
    body = request.body
    errors: dict[tuple[Any, int], ErrorCode] = {}
    wanted: list[tuple[tuple[Any, int], OffsetToCommit]] = []
    for topic in body.topics:
        key, name = _topic(broker, request, topic)
        found = None if name is None else broker.topics.named(name)
        for asked in topic.partitions:
            if name is None:
                errors[key, asked.partition_index] = ErrorCode.unknown_topic_id
            elif found is None or found.partition(asked.partition_index) is None:
                errors[key, asked.partition_index] = ErrorCode.unknown_topic_or_partition
            else:
                wanted.append(((key, asked.partition_index), offset_to_commit(found, asked)))
    member = MemberFacts(
        body.member_id, body.generation_id_or_member_epoch, getattr(body, "group_instance_id", None), request.version
    )
    retention = getattr(body, "retention_time", None)
    answers = broker.offsets.commit(
        body.group_id, member, [offset for _, offset in wanted], -1 if retention is None else milliseconds(retention)
    )
    for (key, _), error in zip(wanted, answers, strict=True):
        errors[key] = offset_commit_error(error, request.version)
    return _answer(request, errors)


def offset_to_commit(topic: Topic, asked: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        asked.partition_index,
        asked.committed_offset,
        getattr(asked, "committed_leader_epoch", -1),
        asked.committed_metadata,
        topic.topic_id,
    )


def _topic(broker: Broker, request: Request, topic: Any) -> tuple[Any, str | None]:
    """What the request calls the topic, and its name if there is one."""
    if request.version < TOPIC_ID_FROM_VERSION:
        return topic.name, topic.name
    found = broker.topics.with_id(topic.topic_id)
    return topic.topic_id, found.name if found is not None else None


def _answer(request: Request, errors: dict[tuple[Any, int], ErrorCode]) -> Any:
    types = request.types
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    topics = []
    for topic in request.body.topics:
        key = topic.topic_id if by_id else topic.name
        partitions = tuple(
            types.OffsetCommitResponsePartition(
                partition_index=asked.partition_index, error_code=errors[key, asked.partition_index]
            )
            for asked in topic.partitions
        )
        topics.append(construct(types.OffsetCommitResponseTopic, name=key, topic_id=key, partitions=partitions))
    return request.answer(topics=tuple(topics))
