"""The two ways to read topics with Spark, with an end and without."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from oncelog.client.values import OffsetSpec, TopicPartition
from oncelog.spark import planning
from oncelog.spark.offsets import Offsets, OffsetTree, from_json, from_tree, is_offsets, to_tree
from oncelog.spark.options import Boundary, SourceOptions
from oncelog.spark.planning import OffsetRange
from oncelog.spark.python_worker import settled
from oncelog.spark.reading import DataLossError, read_range, read_settings
from oncelog.spark.source_cluster import SourceCluster


class RangePartition(InputPartition):
    """One task's share of a read."""

    def __init__(self, range: OffsetRange) -> None:
        super().__init__(range)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(*self.value)


class BatchReader(DataSourceReader):
    """A read with an end."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = read_settings(options)

    def partitions(self) -> Sequence[InputPartition]:
        cluster = SourceCluster(self._options)
        try:
            ranges = self._ranges(cluster)
        finally:
            cluster.close()
        return _tasks(ranges, self._options)

    def _ranges(self, cluster: SourceCluster) -> list[OffsetRange]:
        start = cluster.resolve(self._options.starting, missing_is_latest=self._options.missing_timestamp_is_latest)
        end = cluster.resolve(self._options.ending, missing_is_latest=True)
        return [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._settings)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A read that goes on. One of them lives in the driver for as long as the query runs; copies read in the tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = read_settings(options)
        self._cluster = SourceCluster(options)
        self._bound: Offsets | None = None
        self._latest: Offsets | None = None
        self._start_to_record: Offsets | None = None
        self._last_advance_ms = time.monotonic() * 1000

    def initialOffset(self) -> OffsetTree:
        """Where a query without a checkpoint starts.

        Spark does not keep this answer and asks again when the query restarts before its first micro-batch is done. An
        answer that depends on when it is given, such as `latest`, would then skip records. So the first micro-batch of
        such a query reads nothing: it only puts the start into the checkpoint.
        """
        start = self._cluster.resolve(
            self._options.starting, missing_is_latest=self._options.missing_timestamp_is_latest
        )
        if _moves(self._options.starting, self._options.missing_timestamp_is_latest):
            self._start_to_record = start
        return to_tree(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._bound = self._cluster.latest(self._cluster.partitions())

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> OffsetTree:
        if self._start_to_record is not None:
            self._start_to_record = None
            return to_tree(from_tree(start))
        begin = from_tree(start)
        latest = self._cluster.latest(self._cluster.partitions())
        self._latest = latest
        if self._bound is not None:
            latest = planning.capped(latest, self._bound)
        begin = self._with_new_partitions(begin, latest)
        self._check_no_loss(begin, latest)
        end = self._admitted(begin, latest, limit)
        if end != begin:
            self._last_advance_ms = time.monotonic() * 1000
        return to_tree(end)

    def reportLatestOffset(self) -> OffsetTree | None:
        return None if self._latest is None else to_tree(self._latest)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        if self._start_to_record is not None:
            self._start_to_record = None
            return []
        last = from_tree(end)
        begin = self._with_new_partitions(from_tree(start), last)
        self._check_no_loss(begin, last)
        return _tasks([OffsetRange(item, begin[item], last[item]) for item in sorted(last)], self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._settings)

    def stop(self) -> None:
        self._cluster.close()

    def _with_new_partitions(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Partitions that were added since are read from their beginning."""
        new = [partition for partition in latest if partition not in begin]
        return {**begin, **self._cluster.earliest(new)}

    def _admitted(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        offsets_min = self._options.min_offsets_per_trigger
        if offsets_min is not None and self._bound is None and planning.available(begin, latest) < offsets_min:
            waited_ms = time.monotonic() * 1000 - self._last_advance_ms
            if waited_ms < self._options.max_trigger_delay_ms:
                return begin
        if isinstance(limit, ReadMaxRows):
            return planning.limited(begin, latest, limit.max_rows)
        return latest

    def _check_no_loss(self, begin: Offsets, latest: Offsets) -> None:
        if not self._options.fail_on_data_loss:
            return
        for partition, offset in begin.items():
            if partition not in latest:
                raise DataLossError(f"{partition} is gone; failOnDataLoss=false goes on without it")
            if latest[partition] < offset:
                raise DataLossError(
                    f"{partition} was read up to offset {offset}, but ends at {latest[partition]}: records were "
                    "deleted, or the topic was made anew. failOnDataLoss=false goes on from its end"
                )


def _moves(boundary: Boundary, missing_is_latest: bool) -> bool:
    """Whether the same boundary can mean a later offset when it is asked for again."""
    latest = boundary.everywhere is OffsetSpec.LATEST or OffsetSpec.LATEST in (boundary.offsets or {}).values()
    by_time = boundary.timestamp_ms is not None or boundary.timestamps_ms is not None
    return latest or (by_time and missing_is_latest)


def _tasks(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    divided = planning.divided(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(part) for part in divided]


def _read(partition: InputPartition, settings: Any) -> Iterator[pa.RecordBatch]:
    """Spark stands in a partition of its own where a read has none."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return settled(read_range(partition.range, settings), "read")


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Records behind, by partition, from a query's `lastProgress`; offsets of markers count as records."""
    behind: Offsets = {}
    for source in progress["sources"]:
        latest, end = _progress_offsets(source["latestOffset"]), _progress_offsets(source["endOffset"])
        behind |= {item: max(0, offset - end.get(item, 0)) for item, offset in latest.items()}
    return behind


def _progress_offsets(found: Any) -> Offsets:
    """Offsets in a progress report, which come as a dictionary or as its JSON; none for other sources."""
    if isinstance(found, str):
        return from_json(found) if is_offsets(found) else {}
    return from_tree(found) if found else {}
