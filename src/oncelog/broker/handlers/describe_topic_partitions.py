"""DescribeTopicPartitions v0: topics by name, a limited number of partitions at a time (KIP-966).

The answer goes on where the cursor says. With one replica nobody but the leader can be elected, so the lists of eligible
leaders are empty.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.access import EVERY_TOPIC_OPERATION, UNKNOWN_OPERATIONS
from oncelog.broker.config.configuration import Settings
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.broker.view import ClusterView
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct
from oncelog.wire.topic_names import name_problem


async def handle(request: Request, clock: Clock, settings: Settings, topics: Topics, view: ClusterView) -> Any:
    body = request.body
    cursor = body.cursor
    asked = [topic.name for topic in body.topics]
    names = sorted(set(asked) or {topic.name for topic in topics})
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        is_elsewhere = bool(asked) and names[:1] != [cursor.topic_name]
        if cursor.partition_index < 0 or is_elsewhere:
            return request.answer(topics=tuple(_refused(request, name) for name in asked), next_cursor=None)
    left = max(1, min(body.response_partition_limit, settings.number("max.request.partition.size.limit")))
    answers: list[Any] = []
    turn = Turn(clock)
    for name in names:
        if turn.is_over:
            await turn.rest()
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            return request.answer(topics=tuple(answers), next_cursor=_cursor(request, name, first))
        topic = topics.named(name)
        if topic is None:
            answers.append(_unknown(request, name))
            continue
        partitions = topic.partitions[first : first + left]
        answers.append(
            construct(
                request.types.DescribeTopicPartitionsResponseTopic,
                error_code=ErrorCode.none,
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=tuple(_partition(view, request, partition) for partition in partitions),
                topic_authorized_operations=EVERY_TOPIC_OPERATION,
            )
        )
        left -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return request.answer(topics=tuple(answers), next_cursor=_cursor(request, name, first + len(partitions)))
    return request.answer(topics=tuple(answers), next_cursor=None)


def _cursor(request: Request, name: str, partition_index: int) -> Any:
    return request.types.Cursor(topic_name=name, partition_index=partition_index)


def _partition(view: ClusterView, request: Request, partition: Partition) -> Any:
    known = view.at(request.connection.listener).leadership(partition)
    return construct(
        request.types.DescribeTopicPartitionsResponsePartition,
        error_code=ErrorCode.none,
        partition_index=partition.index,
        leader_id=known.leader,
        leader_epoch=known.leader_epoch,
        replica_nodes=known.replicas,
        isr_nodes=known.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=known.offline,
    )


def _unknown(request: Request, name: str) -> Any:
    is_possible = name_problem(name) is None
    error = ErrorCode.unknown_topic_or_partition if is_possible else ErrorCode.invalid_topic_exception
    return _without_partitions(request, name, error, EVERY_TOPIC_OPERATION)


def _refused(request: Request, name: str) -> Any:
    return _without_partitions(request, name, ErrorCode.invalid_request, UNKNOWN_OPERATIONS)


def _without_partitions(request: Request, name: str, error: ErrorCode, operations: int) -> Any:
    return construct(
        request.types.DescribeTopicPartitionsResponseTopic,
        error_code=error,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=operations,
    )
