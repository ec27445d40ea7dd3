"""DescribeLogDirs v1-5: what each partition takes of the disk; v4 tells the size of the disk too, v5 whether it is cordoned.

A directory that is offline has the error KAFKA_STORAGE_ERROR, and no partitions. One of another that is damaged is left out.
A partition that is on its way to another directory is in both, there with the future key. No directory is ever cordoned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.storage.disk_space import DiskSpace
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.environment import DiskError
from oncelog.log import DataDirectory, FutureLog, LogDirectories
from oncelog.wire import ErrorCode, construct

UNKNOWN_SPACE = (-1, -1)


def handle(
    request: Request,
    disk_space: DiskSpace,
    log_directories: LogDirectories,
    moves: LogMoves,
    survives: Callable[[DiskError], bool],
    topics: Topics,
) -> Any:
    spaces = {directory: _space(disk_space, survives, directory) for directory in log_directories}
    found: dict[str, dict[str, list[Any]]] = {directory.path: {} for directory in spaces}
    for partition in dict.fromkeys(_asked(topics, request.body.topics)):
        path = partition.directory.path
        found[path].setdefault(partition.topic, []).append(_described(request, partition))
        move = moves.of((partition.log.topic_id, partition.index))
        if move is not None and move.log_directory != path:
            described = _described_future(request, partition, move.future)
            found[move.log_directory].setdefault(partition.topic, []).append(described)
    results = tuple(_result(request, one, space, found[one.path]) for one, space in spaces.items())
    return request.answer(error_code=ErrorCode.none, results=results)


def _space(disk_space: DiskSpace, survives: Callable[[DiskError], bool], directory: DataDirectory) -> tuple[int, int]:
    """The bytes of the disk, and those that are left; unknown of one that fails."""
    try:
        return UNKNOWN_SPACE if directory.is_offline else disk_space.of(directory.path)
    except DiskError as error:
        if not survives(error):
            raise
        return UNKNOWN_SPACE


def _result(request: Request, directory: DataDirectory, space: tuple[int, int], topics: dict[str, list[Any]]) -> Any:
    total_bytes, usable_bytes = space
    return construct(
        request.types.DescribeLogDirsResult,
        error_code=ErrorCode.kafka_storage_error if directory.is_offline else ErrorCode.none,
        log_dir=directory.path,
        topics=tuple(
            request.types.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=False,
    )


def _described(request: Request, partition: Partition) -> Any:
    return request.types.DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def _described_future(request: Request, partition: Partition, future: FutureLog) -> Any:
    return request.types.DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=future.size_bytes,
        offset_lag=max(0, partition.log.log_end_offset - future.end_offset),
        is_future_key=True,
    )


def _asked(topics: Topics, asked_topics: Any) -> list[Partition]:
    """Every partition if no topics are named; what has no replica here, or is offline, is left out."""
    if asked_topics is None:
        return list(topics.partitions())
    return [
        partition
        for asked in asked_topics
        for index in asked.partitions
        if (partition := topics.partition(asked.topic, index)) is not None and partition.is_readable
    ]
