"""Where a consumer begins in a partition of which it knows no offset, or one that the log does not have any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

from oncelog.client.cluster import Cluster
from oncelog.client.conversation import Conversation, WallClock
from oncelog.client.offsets import list_offsets
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition

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


def reset_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    reset: OffsetSpec | timedelta,
    isolation_level: IsolationLevel,
) -> Conversation[dict[TopicPartition, int]]:
    """Raises BrokerRefused or RetriesExhausted."""
    if isinstance(reset, timedelta):
        now_ms: int = yield WallClock()
        since_ms = max(0, now_ms - int(reset.total_seconds() * 1000))
        return (yield from find_offsets(cluster, dict.fromkeys(partitions, since_ms), isolation_level))
    return (yield from find_offsets(cluster, dict.fromkeys(partitions, int(reset)), isolation_level))


def find_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> Conversation[dict[TopicPartition, int]]:
    """The offset of each time in ms or OffsetSpec; the end, where no record is as late.

    Raises BrokerRefused or RetriesExhausted.
    """
    found: dict[TopicPartition, int] = {}
    if wanted:
        answers = yield from list_offsets(cluster, wanted, isolation_level)
        found = {partition: answer.offset for partition, answer in answers.items() if answer.offset >= 0}
    late = wanted.keys() - found.keys()
    if late:
        ends = yield from list_offsets(cluster, dict.fromkeys(late, OffsetSpec.LATEST), isolation_level)
        found |= {partition: answer.offset for partition, answer in ends.items()}
    return found
