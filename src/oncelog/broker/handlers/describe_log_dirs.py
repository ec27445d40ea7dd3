"""DescribeLogDirs v1-5: what each partition takes of the disk; v4 tells the size of the disk too, v5 whether it is cordoned.

No directory is ever cordoned or offline, and no partition is on its way to another. A partition that is offline is left
out, as Kafka leaves out those of a directory that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.storage.partition import Partition
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.log import LogDirectories


class Needs(Protocol):
    """What this API needs of the broker."""

    def disk_space(self, path: str) -> tuple[int, int]: ...

    log_directories: LogDirectories
    topics: Topics


def handle(broker: Needs, request: Request) -> Any:
    found: dict[str, dict[str, list[Partition]]] = {path: {} for path in broker.log_directories.paths}
    for partition in dict.fromkeys(_asked(broker, request.body.topics)):
        path = broker.log_directories.directory_of(partition.topic, partition.index)
        found[path].setdefault(partition.topic, []).append(partition)
    results = tuple(_result(broker, request, path, topics) for path, topics in found.items())
    return request.answer(error_code=ErrorCode.none, results=results)


def _result(broker: Needs, request: Request, path: str, topics: dict[str, list[Partition]]) -> Any:
    total_bytes, usable_bytes = broker.disk_space(path)
    return construct(
        request.types.DescribeLogDirsResult,
        error_code=ErrorCode.none,
        log_dir=path,
        topics=tuple(
            request.types.DescribeLogDirsTopic(
                name=name, partitions=tuple(_described(request, partition) for partition in partitions)
            )
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
