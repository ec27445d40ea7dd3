"""OffsetCommit v2-10: stores a group's offsets. v9 is for the groups of KIP-848, v10 names topics by id.

Up to v4 a client may say how long its offsets are to be kept; before v9 a generation of a group that is not there is
ILLEGAL_GENERATION.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.handlers.timeouts import milliseconds
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn, parts
from oncelog.broker.storage import auto_creation
from oncelog.broker.storage.auto_creation import create_internal
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topic
from oncelog.groups import CommitContext, OffsetToCommit
from oncelog.groups.versions import offset_commit_error
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.environment import Clock

TOPIC_ID_FROM_VERSION = 10
COMMITTED_AT_ONCE = 2000
"""Offsets of one request. So many are one decision of the coordinator, and one batch."""


class Needs(auto_creation.Needs, Protocol):
    """What this API needs of the broker."""

    clock: Clock
    offsets: CommittedOffsets


async def handle(broker: Needs, request: Request) -> Any:
    await create_internal(broker, CONSUMER_OFFSETS)
    body = request.body
    errors: dict[tuple[Any, int], ErrorCode] = {}
    wanted: dict[tuple[Any, int], OffsetToCommit] = {}
    turn = Turn(broker.clock)
    for topic in body.topics:
        key, name = _topic(broker, request, topic)
        for asked in topic.partitions:
            found = None if name is None else broker.topics.named(name)
            if name is None:
                errors[key, asked.partition_index] = ErrorCode.unknown_topic_id
            elif found is None or found.partition(asked.partition_index) is None:
                errors[key, asked.partition_index] = ErrorCode.unknown_topic_or_partition
            else:
                wanted[key, asked.partition_index] = offset_to_commit(found, asked)
            if turn.is_over:
                await turn.rest()
    member = CommitContext(
        body.member_id, body.generation_id_or_member_epoch, getattr(body, "group_instance_id", None), request.version
    )
    retention = getattr(body, "retention_time", None)
    retention_ms = -1 if retention is None else milliseconds(retention)
    for part in parts(wanted.items(), COMMITTED_AT_ONCE):
        # A topic may have been deleted meanwhile: what is committed for it now, the next of its name would find.
        errors |= dict.fromkeys((partition for partition, _ in part), ErrorCode.unknown_topic_or_partition)
        there = [one for one in part if _is_there(broker, one[1])]
        answers = await broker.offsets.commit(body.group_id, member, [offset for _, offset in there], retention_ms)
        for (partition, _), error in zip(there, answers, strict=True):
            errors[partition] = offset_commit_error(error, request.version)
        if turn.is_over:
            await turn.rest()
    return await _answer(broker, request, errors)


def offset_to_commit(topic: Topic, asked: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        asked.partition_index,
        asked.committed_offset,
        getattr(asked, "committed_leader_epoch", -1),
        asked.committed_metadata,
        topic.topic_id,
    )


def _is_there(broker: Needs, offset: OffsetToCommit) -> bool:
    return offset.topic_id is not None and broker.topics.still_named(offset.topic_id) is not None


def _topic(broker: Needs, request: Request, topic: Any) -> tuple[Any, str | None]:
    """What the request calls the topic, and its name if there is one."""
    if request.version < TOPIC_ID_FROM_VERSION:
        return topic.name, topic.name
    found = broker.topics.still_named(topic.topic_id)
    return topic.topic_id, found.name if found is not None else None


async def _answer(broker: Needs, request: Request, errors: dict[tuple[Any, int], ErrorCode]) -> Any:
    turn = Turn(broker.clock)
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    topics = []
    for topic in request.body.topics:
        key = topic.topic_id if by_id else topic.name
        partitions = await turn.each(topic.partitions, partial(_result, request, key, errors))
        topics.append(construct(request.types.OffsetCommitResponseTopic, name=key, topic_id=key, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _result(request: Request, topic: Any, errors: dict[tuple[Any, int], ErrorCode], asked: Any) -> Any:
    return request.types.OffsetCommitResponsePartition(
        partition_index=asked.partition_index, error_code=errors[topic, asked.partition_index]
    )
