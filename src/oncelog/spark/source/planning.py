"""The size of a micro-batch, and the division of its offsets among tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from oncelog.client.values import TopicPartition
from oncelog.spark.offsets import Offsets

TASK_OFFSETS = 20_000
"""A task of Spark's, with its Python, costs about as much of the processor as reading this many small records."""

PARTITION_OFFSETS = 100
"""The same of one more partition in a task."""

TASKS_PER_CORE = 2
"""The tasks per core where partitions are small: small tasks leave little to wait for at the end."""


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, not including, `end`. Not each of them need be a record."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limited(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int) -> Offsets:
    """End offsets of at most about `offsets_max` offsets, shared out in proportion to what each partition has.

    A partition with anything to read gets at least one offset, so that none waits for ever; the sum may exceed the
    limit by that.
    `start` has every partition of `latest`.
    """
    sizes = {partition: max(0, end - start[partition]) for partition, end in latest.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(latest)
    return {
        partition: start[partition] + min(size, max(1, size * offsets_max // total)) if size else latest[partition]
        for partition, size in sizes.items()
    }


def available(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """The number of offsets to read. `start` has every partition of `latest`."""
    return sum(max(0, end - start[partition]) for partition, end in latest.items())


def capped(
    latest: Mapping[TopicPartition, int], bound: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]
) -> Offsets:
    """`latest` up to `bound`, without partitions that neither `bound` nor `start` has.

    No end is before its start, even where a broker that lagged behind has named an earlier bound.
    """
    ends = {**bound, **{partition: max(bound.get(partition, begin), begin) for partition, begin in start.items()}}
    return {partition: min(latest[partition], end) for partition, end in ends.items() if partition in latest}


def divided(ranges: Iterable[OffsetRange], partitions_min: int | None, records_max: int | None) -> list[OffsetRange]:
    """Leave out empty ranges and cut long ones, so that there are about `partitions_min`, none over `records_max`."""
    parts = [part for whole in ranges if whole.size > 0 for part in _cut_by_size(whole, records_max)]
    if not parts or partitions_min is None or len(parts) >= partitions_min:
        return parts
    total = sum(part.size for part in parts)
    return [
        piece
        for part in parts
        for piece in _cut(part, max(1, min(part.size, round(part.size * partitions_min / total))))
    ]


def _cut_by_size(whole: OffsetRange, records_max: int | None) -> list[OffsetRange]:
    return [whole] if records_max is None else _cut(whole, math.ceil(whole.size / records_max))


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [OffsetRange(whole.partition, *edge) for edge in pairwise(edges)]


def put_together(
    parts: Sequence[OffsetRange],
    *,
    cores: int,
    partitions_min: int | None,
    partitions_max: int | None,
    records_max: int | None,
) -> list[tuple[OffsetRange, ...]]:
    """Divide the parts among tasks: neighbours together, in about equal shares, in at most `partitions_max` tasks.

    Without `partitions_max` there are enough for all cores, and none reads next to nothing. More tasks come of
    `records_max`, which no task exceeds that reads more than one part.

    Each task reads on where the one before it ends: the sink writes what tasks give in their order, and pieces of one
    partition stay in theirs.
    """
    few = partitions_max or max(TASKS_PER_CORE * cores, partitions_min or 0)
    if len(parts) <= few:
        return [(part,) for part in parts]
    tasks_max = partitions_max or max(few, math.ceil(sum(part.size for part in parts) / TASK_OFFSETS))
    weights = [part.size + PARTITION_OFFSETS for part in parts]
    total = sum(weights)
    tasks: list[list[OffsetRange]] = []
    share, before, size = -1, 0, 0
    for part, weight in zip(parts, weights, strict=True):
        # A part belongs to the share that has its middle. So a large one is not put behind many small ones.
        its_share = (2 * before + weight) * tasks_max // (2 * total)
        before += weight
        if its_share != share or (records_max is not None and size + part.size > records_max):
            tasks.append([])
            share, size = its_share, 0
        size += part.size
        _append(tasks[-1], part)
    return [tuple(task) for task in tasks]


def _append(task: list[OffsetRange], part: OffsetRange) -> None:
    """Pieces of a partition that follow one another are one range again."""
    if task and task[-1].partition == part.partition and task[-1].end == part.start:
        task[-1] = OffsetRange(part.partition, task[-1].start, part.end)
    else:
        task.append(part)
