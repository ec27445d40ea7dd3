"""OffsetCommit v2-10: stores a group's offsets. v9 is for the groups of KIP-848, v10 names topics by id.

Up to v4 a client may say how long its offsets are to be kept; before v9 a generation of a group that is not there is
ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request, milliseconds
from oncelog.broker.slices import Turn, parts
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topic, Topics
from oncelog.environment import Clock
from oncelog.groups import CommitContext, OffsetToCommit
from oncelog.groups.offsets import offset_commit_error
from oncelog.wire import ErrorCode, construct

Key = tuple[Any, int]
"""A partition as the request calls it: by the name of its topic, or by the id, and the index."""
TOPIC_ID_FROM_VERSION = 10
COMMITTED_AT_ONCE = 2000
"""Offsets of one request. So many are one decision of the coordinator, and one batch."""


async def handle(
    request: Request, auto_creation: AutoTopicCreation, clock: Clock, offsets: CommittedOffsets, topics: Topics
) -> Any:
    await auto_creation.create_internal(CONSUMER_OFFSETS)
    turn = Turn(clock)
    checked = await _check_each(topics, request, turn)
    errors = {key: one for key, one in checked.items() if isinstance(one, ErrorCode)}
    wanted = {key: one for key, one in checked.items() if isinstance(one, OffsetToCommit)}
    for part in parts(wanted.items(), COMMITTED_AT_ONCE):
        errors |= await _commit(offsets, topics, request, part)
        if turn.is_over:
            await turn.rest()
    return await _answer(clock, request, errors)


async def _check_each(topics: Topics, request: Request, turn: Turn) -> dict[Key, OffsetToCommit | ErrorCode]:
    """The offsets to commit, and the errors of those that cannot be committed."""
    checked: dict[Key, OffsetToCommit | ErrorCode] = {}
    for topic in request.body.topics:
        key, name = _topic(topics, request, topic)
        for asked in topic.partitions:
            checked[key, asked.partition_index] = _check(topics, name, asked)
            if turn.is_over:
                await turn.rest()
    return checked


def _check(topics: Topics, name: str | None, asked: Any) -> OffsetToCommit | ErrorCode:
    if name is None:
        return ErrorCode.unknown_topic_id
    found = topics.named(name)
    if found is None or not takes_offsets(topics, found, asked.partition_index):
        return ErrorCode.unknown_topic_or_partition
    return offset_to_commit(found, asked)


def takes_offsets(topics: Topics, topic: Topic, index: int) -> bool:
    """As in Kafka, not from the moment on at which the controller has said that the topic is being deleted."""
    return topic.partition(index) is not None and not topics.is_going(topic)


def offset_to_commit(topic: Topic, asked: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        topic.topic_id,
        asked.partition_index,
        asked.committed_offset,
        getattr(asked, "committed_leader_epoch", -1),
        asked.committed_metadata,
    )


async def _commit(
    offsets: CommittedOffsets, topics: Topics, request: Request, part: Sequence[tuple[Key, OffsetToCommit]]
) -> Mapping[Key, ErrorCode]:
    """Return the outcome of each offset."""
    body = request.body
    member = CommitContext(
        body.member_id, body.generation_id_or_member_epoch, getattr(body, "group_instance_id", None), request.version
    )
    retention = getattr(body, "retention_time", None)
    retention_ms = -1 if retention is None else milliseconds(retention)
    # A topic may have been deleted meanwhile: what is committed for it now, the next of its name would find.
    there = {key: offset for key, offset in part if _is_there(topics, offset)}
    gone = {key: ErrorCode.unknown_topic_or_partition for key, _ in part if key not in there}
    answers = await offsets.commit(body.group_id, member, tuple(there.values()), retention_ms)
    return gone | {key: offset_commit_error(error, request.version) for key, error in zip(there, answers, strict=True)}


def _is_there(topics: Topics, offset: OffsetToCommit) -> bool:
    topic = topics.still_named(offset.topic_id)
    return topic is not None and takes_offsets(topics, topic, offset.partition)


def _topic(topics: Topics, request: Request, topic: Any) -> tuple[Any, str | None]:
    """The topic as the request names it, and its name if there is such a topic."""
    if request.version < TOPIC_ID_FROM_VERSION:
        return topic.name, topic.name
    found = topics.still_named(topic.topic_id)
    return topic.topic_id, found.name if found is not None else None


async def _answer(clock: Clock, request: Request, errors: Mapping[Key, ErrorCode]) -> Any:
    turn = Turn(clock)
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    topics = []
    for topic in request.body.topics:
        key = topic.topic_id if by_id else topic.name
        partitions = await turn.each(topic.partitions, partial(_result, request, key, errors))
        topics.append(construct(request.types.OffsetCommitResponseTopic, name=key, topic_id=key, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _result(request: Request, topic: Any, errors: Mapping[Key, ErrorCode], asked: Any) -> Any:
    return request.types.OffsetCommitResponsePartition(
        partition_index=asked.partition_index, error_code=errors[topic, asked.partition_index]
    )
