"""OffsetForLeaderEpoch v2-4: where an epoch ended, so that a client can see whether what it read was cut off (KIP-320).

v3 says which replica asks, if one does. The leader alone knows, and tells everybody the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.leaders import epoch_problem
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct


async def handle(request: Request, clock: Clock, topics: Topics) -> Any:
    turn = Turn(clock)
    answers = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partitions, partial(_partition, topics, request, asked.topic))
        answers.append(request.types.OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    return request.answer(topics=tuple(answers))


def _partition(topics: Topics, request: Request, topic: str, asked: Any) -> Any:
    partition = topics.partition(topic, asked.partition)
    error = (
        ErrorCode.unknown_topic_or_partition
        if partition is None
        else epoch_problem(partition, asked.current_leader_epoch)
    )
    epoch, end_offset = -1, -1
    if partition is not None and error is None:
        epoch, end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
    return construct(
        request.types.EpochEndOffset,
        error_code=error or ErrorCode.none,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
