"""OffsetDelete v0: forgets offsets of a group, but for topics that its members are subscribed to (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock
from oncelog.groups import TopicPartition
from oncelog.wire import ErrorCode


async def handle(request: Request, clock: Clock, offsets: CommittedOffsets, topics: Topics) -> Any:
    known = list(_known(topics, request))
    deletion = await offsets.delete(request.body.group_id, known)
    if deletion.error is not ErrorCode.none:
        return request.answer(error_code=deletion.error, topics=())
    errors = dict(zip(known, deletion.errors, strict=True))
    turn = Turn(clock)
    answers = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partitions, partial(_result, request, asked.name, errors))
        answers.append(request.types.OffsetDeleteResponseTopic(name=asked.name, partitions=partitions))
    return request.answer(error_code=ErrorCode.none, topics=tuple(answers))


def _known(topics: Topics, request: Request) -> Iterable[TopicPartition]:
    """The requested partitions that exist, each once."""
    known: dict[TopicPartition, None] = {}
    for asked in request.body.topics:
        topic = topics.named(asked.name)
        if topic is not None:
            indexes = {item.partition_index for item in asked.partitions}
            known |= dict.fromkeys((asked.name, index) for index in indexes if topic.partition(index) is not None)
    return known


def _result(request: Request, topic: str, errors: dict[TopicPartition, ErrorCode], asked: Any) -> Any:
    return request.types.OffsetDeleteResponsePartition(
        partition_index=asked.partition_index,
        error_code=errors.get((topic, asked.partition_index), ErrorCode.unknown_topic_or_partition),
    )
