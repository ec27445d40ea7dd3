"""DeleteRecords v0-2: lets a partition begin at a later offset; -1 is its high watermark.

The answer waits until the new beginning is in a checkpoint, and what is kept is durable: neither a kill nor a power cut
brings deleted records back. In a cluster it also waits until every replica that is alive begins there (KIP-107), but no longer
than the client wants to. Segments that lie wholly before it go with the next look for old segments, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.request import Request, milliseconds
from oncelog.broker.slices import Turn
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise
from oncelog.coordination.deadline import Deadline
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

HIGH_WATERMARK = -1
NO_OFFSET = -1

Results = dict[tuple[str, int], tuple[int, ErrorCode]]


async def handle(
    request: Request, checkpoints: Checkpoints, clock: Clock, durability: Durability, topics: Topics
) -> Any:
    turn = Turn(clock)
    # As in Kafka, of a partition that is named twice the last counts.
    asked = {(topic.name, one.partition_index): one.offset for topic in request.body.topics for one in topic.partitions}
    results = dict(zip(asked, await turn.each(asked.items(), partial(_advance, topics)), strict=True))
    moved = [key for key, (_, error) in results.items() if error is ErrorCode.none]
    if moved:
        deadline = Deadline(clock, milliseconds(request.body.timeout))
        try:
            results |= await _deleted(
                checkpoints, durability, topics, {key: results[key][0] for key in moved}, deadline
            )
        finally:
            deadline.end()
    answers: dict[str, list[Any]] = {}
    for name, result in await turn.each(results.items(), partial(_result, request)):
        answers.setdefault(name, []).append(result)
    types = request.types
    return request.answer(
        topics=tuple(
            types.DeleteRecordsTopicResult(name=name, partitions=tuple(partitions))
            for name, partitions in answers.items()
        )
    )


def _advance(topics: Topics, asked: tuple[tuple[str, int], int]) -> tuple[int, ErrorCode]:
    """Let a partition begin later; return where it is to begin, and what is wrong."""
    (name, index), offset = asked
    partition = topics.partition(name, index)
    error = _problem(topics, name, partition, offset)
    if partition is None or error is not ErrorCode.none:
        return NO_OFFSET, error
    wanted = partition.log.high_watermark if offset == HIGH_WATERMARK else offset
    partition.log.advance_log_start(wanted)
    return wanted, ErrorCode.none


async def _deleted(
    checkpoints: Checkpoints,
    durability: Durability,
    topics: Topics,
    offsets: dict[tuple[str, int], int],
    deadline: Deadline,
) -> Results:
    """Wait until the partitions begin at these offsets here, for good, and then everywhere."""
    # A log never begins beyond its end: what is before the new beginning is durable first.
    found = (topics.partition(*key) for key in offsets)
    await durability.make_durable([one.log for one in found if one is not None and one.problem is None])
    await checkpoints.write()
    return {key: await _reached(topics, key, offset, deadline) for key, offset in offsets.items()}


async def _reached(topics: Topics, key: tuple[str, int], offset: int, deadline: Deadline) -> tuple[int, ErrorCode]:
    """Wait until no replica that is alive has what is before the offset; as Kafka's DelayedDeleteRecords."""
    while True:
        partition = topics.partition(*key)
        if partition is None:
            return NO_OFFSET, ErrorCode.unknown_topic_or_partition
        if partition.problem is not None:
            return NO_OFFSET, partition.problem
        low_watermark = partition.low_watermark
        if low_watermark >= offset:
            return low_watermark, ErrorCode.none
        if deadline.is_over:
            return low_watermark, ErrorCode.request_timed_out
        await _moves(partition, deadline)


async def _moves(partition: Partition, deadline: Deadline) -> None:
    moved: Promise[None] = Promise()

    def wake() -> None:
        if not moved.is_resolved:
            moved.resolve(None)

    partition.watch(wake)
    try:
        await deadline.until(moved)
    finally:
        partition.unwatch(wake)


def _problem(topics: Topics, name: str, partition: Partition | None, offset: int) -> ErrorCode:
    topic = topics.named(name)
    if topic is None or partition is None:
        return ErrorCode.unknown_topic_or_partition
    if topic.is_internal:
        return ErrorCode.invalid_topic_exception
    if topic.policies == ["compact"]:
        return ErrorCode.policy_violation
    if partition.problem is not None:
        return partition.problem
    if offset != HIGH_WATERMARK and not 0 <= offset <= partition.log.high_watermark:
        return ErrorCode.offset_out_of_range
    return ErrorCode.none


def _result(request: Request, result: tuple[tuple[str, int], tuple[int, ErrorCode]]) -> tuple[str, Any]:
    (name, index), (low_watermark, error) = result
    answer = request.types.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=error
    )
    return name, answer
