"""DescribeLogDirs v1-5: what each partition takes of the disk; v4 tells the size of the disk too, v5 whether it is cordoned.

There is one directory, it is never cordoned, and no partition is on its way to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.partition import Partition
from oncelog.broker.request import Request
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Any:
    topics: dict[str, list[Any]] = {}
    for partition in _asked(broker, request.body.topics):
        topics.setdefault(partition.topic, []).append(
            request.types.DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
    total_bytes, usable_bytes = broker.disk_space()
    directory = construct(
        request.types.DescribeLogDirsResult,
        error_code=ErrorCode.none,
        log_dir=broker.data_directory,
        topics=tuple(
            request.types.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=False,
    )
    return request.answer(error_code=ErrorCode.none, results=(directory,))


def _asked(broker: Broker, topics: Any) -> list[Partition]:
    """Every partition if no topics are named; what is not there is left out."""
    if topics is None:
        return list(broker.topics.partitions())
    return [
        partition
        for asked in topics
        for index in asked.partitions
        if (partition := broker.topics.partition(asked.topic, index)) is not None
    ]
