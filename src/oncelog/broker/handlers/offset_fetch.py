"""OffsetFetch v1-10: a group's committed offsets. v2 all; v7 only stable ones (KIP-447); v8 several groups; v9 says which
member of a consumer group asks (KIP-848); v10 topic ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.coordination.fields import compact_string
from oncelog.environment import Clock
from oncelog.groups import FetchedOffset, GroupOffsets, StoredOffset
from oncelog.wire import EncodedItems, ErrorCode, construct

BATCHED_FROM_VERSION = 8
TOPIC_ID_FROM_VERSION = 10
NO_EPOCH = NO_OFFSET = -1
TOPICS_AT_ONCE = 16
"""So many of one request are answered before others are served."""
_HEAD = Struct(">iqi")
_NO_ERROR = b"\0\0\0"
"""And no tagged fields."""
_NO_METADATA = b"\1" + _NO_ERROR


async def handle(request: Request, clock: Clock, offsets: CommittedOffsets, topics: Topics) -> Any:
    body = request.body
    require_stable = getattr(body, "require_stable", False)
    turn = Turn(clock)
    if request.version < BATCHED_FROM_VERSION:
        found = await _offsets(offsets, body.group_id, require_stable)
        if isinstance(found, ErrorCode):
            return request.answer(topics=_not_coordinated(request, found), error_code=found)
        answers = await _group(topics, request, found, body.topics, turn)
        return request.answer(topics=answers, error_code=ErrorCode.none)
    groups = []
    for group in body.groups:
        groups.append(await _checked_group(offsets, topics, request, group, require_stable, turn))
        if turn.is_over:
            await turn.rest()
    return request.answer(groups=tuple(groups))


def _not_coordinated(request: Request, error: ErrorCode) -> tuple[Any, ...]:
    """Before v2 there is no error for them all."""
    return tuple(
        _topic(
            request,
            asked.name,
            [FetchedOffset(asked.name, index, error) for index in asked.partition_indexes],
        )
        for asked in request.body.topics or ()
    )


async def _checked_group(
    offsets: CommittedOffsets, topics: Topics, request: Request, group: Any, require_stable: bool, turn: Turn
) -> Any:
    error = offsets.error(group.group_id)
    if error is ErrorCode.none:
        error = offsets.coordinator.check_fetch(
            group.group_id, getattr(group, "member_id", None), getattr(group, "member_epoch", NO_EPOCH)
        )
    found = error if error is not ErrorCode.none else await _offsets(offsets, group.group_id, require_stable)
    answer = request.types.OffsetFetchResponseGroup
    if isinstance(found, ErrorCode):
        return answer(group_id=group.group_id, topics=(), error_code=found)
    answers = await _group(topics, request, found, group.topics, turn)
    return answer(group_id=group.group_id, topics=answers, error_code=ErrorCode.none)


async def _offsets(offsets: CommittedOffsets, group: str, require_stable: bool) -> GroupOffsets | ErrorCode:
    error = offsets.error(group)
    return error if error is not ErrorCode.none else await offsets.told(group, require_stable)


async def _group(topics: Topics, request: Request, offsets: GroupOffsets, asked: Any, turn: Turn) -> tuple[Any, ...]:
    """All of one moment, as in Kafka, which locks the group: what a transaction has committed is seen whole, or not yet."""
    if asked is None:
        by_topic: dict[str, list[FetchedOffset]] = {}
        for partition in sorted(offsets.committed):
            by_topic.setdefault(partition[0], []).append(offsets.fetched(partition))
        answered = [(_key(topics, request, name), found) for name, found in by_topic.items()]
        return tuple(_topic(request, key, found) for key, found in answered if key is not None)
    if len(asked) <= TOPICS_AT_ONCE:
        return tuple(_asked_topic(topics, request, offsets, topic) for topic in asked)
    of_this_moment = offsets.copy()
    return await turn.each(asked, lambda topic: _asked_topic(topics, request, of_this_moment, topic))


def _asked_topic(topics: Topics, request: Request, offsets: GroupOffsets, asked: Any) -> Any:
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    known = topics.still_named(asked.topic_id) if by_id else None
    key = asked.topic_id if by_id else asked.name
    name = asked.name if not by_id else known.name if known is not None else None
    indexes = asked.partition_indexes
    if name is None:
        return _topic(request, key, [FetchedOffset("", index, ErrorCode.unknown_topic_id) for index in indexes])
    if request.version < BATCHED_FROM_VERSION or offsets.unstable:
        return _topic(request, key, [offsets.fetched((name, index)) for index in indexes])
    partitions = [_encoded(index, offsets.committed.get((name, index))) for index in indexes]
    answered = EncodedItems(len(partitions), b"".join(partitions))
    return construct(request.types.OffsetFetchResponseTopics, name=key, topic_id=key, partitions=answered)


def _encoded(index: int, stored: StoredOffset | None) -> bytes:
    """One partition of an answer, which is the same in every version from 8 on."""
    if stored is None:
        return _HEAD.pack(index, NO_OFFSET, NO_EPOCH) + _NO_METADATA
    committed = stored.committed
    metadata = compact_string(committed.metadata) + _NO_ERROR if committed.metadata else _NO_METADATA
    return _HEAD.pack(index, committed.offset, committed.leader_epoch) + metadata


def _key(topics: Topics, request: Request, name: str) -> Any:
    """The topic as the answer names it; None for one that is gone, which has a name but no id."""
    if request.version < TOPIC_ID_FROM_VERSION:
        return name
    topic = topics.named(name)
    return topic.topic_id if topic is not None else None


def _topic(request: Request, key: Any, found: Sequence[FetchedOffset]) -> Any:
    types = request.types
    is_batched = request.version >= BATCHED_FROM_VERSION
    topic_class = types.OffsetFetchResponseTopics if is_batched else types.OffsetFetchResponseTopic
    partition_class = types.OffsetFetchResponsePartitions if is_batched else types.OffsetFetchResponsePartition
    partitions = tuple(
        construct(
            partition_class,
            partition_index=fetched.partition,
            committed_offset=fetched.offset,
            committed_leader_epoch=fetched.leader_epoch,
            metadata=fetched.metadata,
            error_code=fetched.error,
        )
        for fetched in found
    )
    return construct(topic_class, name=key, topic_id=key, partitions=partitions)
