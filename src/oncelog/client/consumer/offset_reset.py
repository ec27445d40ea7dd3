"""Where a consumer begins in a partition of which it knows no offset, or one that the log does not have any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

from oncelog.client.consumer.offsets import list_offsets
from oncelog.client.errors import ClientError
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import WallClock
from oncelog.client.values import IsolationLevel, OffsetAndTimestamp, OffsetSpec, TopicPartition

OffsetReset: TypeAlias = OffsetSpec | timedelta | None
"""The start, the end, so long ago, or nowhere: that is an error."""


def parse_reset(value: str | timedelta) -> OffsetReset:
    """Read "earliest", "latest", "none" or how long ago. Raises ValueError."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(f"auto_offset_reset is {value}: the time since when must not be negative")
        return value
    names: dict[str, OffsetReset] = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "none": None}
    if value not in names:
        raise ValueError(f"auto_offset_reset is {value!r}: earliest, latest, none or a timedelta is allowed")
    return names[value]


Placed = Callable[[Mapping[TopicPartition, int]], None]
"""Told of each partition's offset as soon as its leader has said it."""


async def reset_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    reset: OffsetSpec | timedelta,
    isolation_level: IsolationLevel,
    placed: Placed,
) -> None:
    """Raises BrokerRefused or RetriesExhausted."""
    since: int = int(reset) if isinstance(reset, OffsetSpec) else 0
    if isinstance(reset, timedelta):
        now_ms = await WallClock()
        since = max(0, now_ms - int(reset.total_seconds() * 1000))
    await find_offsets(cluster, dict.fromkeys(partitions, since), isolation_level, placed)


async def find_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel, placed: Placed
) -> None:
    """The offset of each time in ms or OffsetSpec; the end, where no record is as late.

    Raises BrokerRefused or RetriesExhausted.
    """
    late: set[TopicPartition] = set()

    def take(answers: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        found = {partition: answer.offset for partition, answer in answers.items() if answer.offset >= 0}
        late.update(answers.keys() - found.keys())
        placed(found)

    def take_end(answers: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        placed({partition: answer.offset for partition, answer in answers.items()})

    error: ClientError | None = None
    try:
        await list_offsets(cluster, wanted, isolation_level, take)
    except ClientError as one_of_them:
        error = one_of_them
    if late:
        await list_offsets(cluster, dict.fromkeys(late, OffsetSpec.LATEST), isolation_level, take_end)
    if error is not None:
        raise error
