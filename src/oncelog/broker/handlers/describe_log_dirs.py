"""DescribeLogDirs v1-5: what each partition takes of the disk; v4 tells the size of the disk too, v5 whether it is cordoned.

No directory is ever cordoned or offline. A partition that is offline is left out, as Kafka leaves out those of a directory
that is. One that is on its way to another directory is in both, there with the future key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.storage.partition import Partition
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.storage.moving import LogMoves
    from oncelog.broker.storage.topics import Topics
    from oncelog.log import FutureLog, LogDirectories


class Needs(Protocol):
    """What this API needs of the broker."""

    def disk_space(self, path: str) -> tuple[int, int]: ...

    log_directories: LogDirectories
    moves: LogMoves
    topics: Topics


def handle(broker: Needs, request: Request) -> Any:
    found: dict[str, dict[str, list[Any]]] = {path: {} for path in broker.log_directories.paths}
    for partition in dict.fromkeys(_asked(broker, request.body.topics)):
        path = broker.log_directories.directory_of(partition.topic, partition.index)
        found[path].setdefault(partition.topic, []).append(_described(request, partition))
        move = broker.moves.of((partition.log.topic_id, partition.index))
        if move is not None and move.log_directory != path:
            described = _described_future(request, partition, move.future)
            found[move.log_directory].setdefault(partition.topic, []).append(described)
    results = tuple(_result(broker, request, path, topics) for path, topics in found.items())
    return request.answer(error_code=ErrorCode.none, results=results)


def _result(broker: Needs, request: Request, path: str, topics: dict[str, list[Any]]) -> Any:
    total_bytes, usable_bytes = broker.disk_space(path)
    return construct(
        request.types.DescribeLogDirsResult,
        error_code=ErrorCode.none,
        log_dir=path,
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


def _asked(broker: Needs, topics: Any) -> list[Partition]:
    """Every partition if no topics are named; what is not there or offline is left out."""
    if topics is None:
        return list(broker.topics.partitions())
    return [
        partition
        for asked in topics
        for index in asked.partitions
        if (partition := broker.topics.partition(asked.topic, index)) is not None and not partition.is_offline
    ]
