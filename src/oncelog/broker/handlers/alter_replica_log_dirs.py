"""AlterReplicaLogDirs v1-2: begins to move the logs of partitions to other log directories of this broker.

It is answered when the move has begun; DescribeLogDirs says how far it is. Asking for the directory where a log is ends a
move. For a partition of which there is no replica here the directory is remembered until it is made.
"""

from __future__ import annotations

import logging
from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock, DiskError
from oncelog.log import LogDirectories
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")

PartitionKey = tuple[str, int]


async def handle(
    request: Request, clock: Clock, log_directories: LogDirectories, moves: LogMoves, topics: Topics
) -> Any:
    # As in Kafka, of two directories for one partition the last counts.
    asked: dict[PartitionKey, str] = {
        (topic.name, index): directory.path
        for directory in request.body.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    turn = Turn(clock)
    results: dict[PartitionKey, ErrorCode] = {}
    for key, path in asked.items():
        await _end_other_move(log_directories, moves, topics, key, path)
        try:
            results[key] = _move(log_directories, moves, topics, key, path)
        except DiskError as error:
            logger.error("%s-%d does not move to %s: %s", *key, path, error)
            results[key] = ErrorCode.kafka_storage_error
        if turn.is_over:
            await turn.rest()
    return _answer(request, results)


async def _end_other_move(
    log_directories: LogDirectories, moves: LogMoves, topics: Topics, key: PartitionKey, path: str
) -> None:
    """A log that is on its way to elsewhere goes there no more; one that is just arriving does so first."""
    partition = _find(topics, key)
    if path not in log_directories.paths or partition is None or partition.is_offline:
        return
    log_key = (partition.log.topic_id, partition.index)
    move = moves.of(log_key)
    if move is not None and move.log_directory != path:
        await moves.end(log_key)


def _move(log_directories: LogDirectories, moves: LogMoves, topics: Topics, key: PartitionKey, path: str) -> ErrorCode:
    topic, index = key
    if path not in log_directories.paths:
        return ErrorCode.log_dir_not_found
    directory = log_directories.of_path(path)
    if directory is None or directory.is_offline:
        return ErrorCode.kafka_storage_error
    partition = _find(topics, key)
    if partition is None:
        log_directories.prefer(topic, index, path)
        is_known = topics.partition(topic, index) is not None
        return ErrorCode.replica_not_available if is_known else ErrorCode.unknown_topic_or_partition
    if partition.is_offline:
        return ErrorCode.kafka_storage_error
    is_there = log_directories.directory_of(topic, index) == path
    if not is_there and moves.of((partition.log.topic_id, index)) is None:
        moves.begin(partition, path)
    return ErrorCode.none


def _find(topics: Topics, key: PartitionKey) -> Partition | None:
    """The replica that is here, and stays."""
    topic, index = key
    partition = None if topics.is_being_deleted(topic) else topics.partition(topic, index)
    is_here = partition is not None and partition.role in (ReplicaRole.LEADER, ReplicaRole.FOLLOWER)
    return partition if is_here else None


def _answer(request: Request, results: dict[PartitionKey, ErrorCode]) -> Any:
    types = request.types
    topics: dict[str, list[Any]] = {}
    for (name, index), error in results.items():
        topics.setdefault(name, []).append(
            types.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
        )
    return request.answer(
        results=tuple(
            types.AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
    )
