"""The two ways to read topics with Spark, with an end and without."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from oncelog.client.errors import ClientError
from oncelog.client.values import TopicPartition
from oncelog.spark.offsets import (
    IdsByTopic,
    Offsets,
    OffsetTree,
    begins_of,
    first_start,
    from_tree,
    is_first_start,
    to_tree,
    topic_ids,
    with_begins,
)
from oncelog.spark.older_pyspark import (
    HAS_READ_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from oncelog.spark.options.source_options import SourceOptions
from oncelog.spark.options.table import OptionError
from oncelog.spark.session.python_worker import frozen_after, session_cores, without_traceback
from oncelog.spark.shipping import Shipped
from oncelog.spark.source import planning
from oncelog.spark.source.cluster import SourceCluster
from oncelog.spark.source.errors import USER_ERRORS, DataLossError
from oncelog.spark.source.planning import OffsetRange
from oncelog.spark.source.reading import read_ranges

logger = logging.getLogger("oncelog.spark")


class RangePartition(InputPartition):
    """One task's share of a read: some partitions, or a part of one."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(ranges)

    @property
    def ranges(self) -> Sequence[OffsetRange]:
        ranges: Sequence[OffsetRange] = self.value
        return ranges


class BatchReader(Shipped, DataSourceReader):
    """A read with an end."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @without_traceback(*USER_ERRORS)
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
        return _read(partition, self._options)


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A read without an end. One reader lives in the driver while the query runs; copies read in the tasks."""

    def __init__(self, options: SourceOptions) -> None:
        """Raises OptionError where this release of PySpark cannot keep to an option."""
        if not HAS_READ_LIMITS and (options.limits.offsets_max or options.limits.offsets_min):
            raise OptionError(
                "maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer: an older one does not tell a source "
                "where a micro-batch starts"
            )
        self._options = options
        self._cluster = SourceCluster(options)
        self._bound: Offsets | None = None
        self._latest: Offsets | None = None
        self._planned: Offsets | None = None
        """The end of the last micro-batch whose tasks were planned, at which the next one starts."""
        self._told_last: OffsetTree | None = None
        """The last answer to a Spark that does not tell where a micro-batch starts."""
        self._last_advance_ms = time.monotonic() * 1000

    @without_traceback(*USER_ERRORS)
    def initialOffset(self) -> OffsetTree:
        """The start of a query without a checkpoint.

        Spark does not keep this answer. It asks again for a first micro-batch that was planned and not done, whose end holds its
        begin: its topics may be gone since, or have partitions that startingOffsets does not name. So errors are raised only
        where a micro-batch is planned.
        """
        try:
            return first_start(self._start())
        except (OptionError, ClientError):
            return first_start({})

    def _start(self) -> OffsetTree:
        """The start that the options name. Raises OptionError and ClientError."""
        missing_is_latest = self._options.missing_timestamp_is_latest
        return self._tree(self._cluster.resolve(self._options.starting, missing_is_latest=missing_is_latest))

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    @without_traceback(*USER_ERRORS)
    def prepareForTriggerAvailableNow(self) -> None:
        self._bound = self._cluster.latest(self._cluster.partitions_there())

    @without_traceback(*USER_ERRORS)
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> OffsetTree:
        if start is None or limit is None:
            return self._latest_without_start()
        is_first = is_first_start(start)
        if is_first and not from_tree(start):
            start = first_start(self._start())
        self._cluster.were_read_as(topic_ids(start))
        latest = self._cluster.ends(from_tree(start))
        self._latest = latest
        begin = self._begin(start, self._cluster.topic_ids)
        if self._bound is not None:
            latest = planning.capped(latest, self._bound, begin)
        was_read = frozenset() if is_first else begin.keys()
        begin = self._with_new_partitions(begin, latest)
        self._check_no_loss(begin, latest)
        end = self._admitted(begin, latest, limit)
        if end != begin:
            self._last_advance_ms = time.monotonic() * 1000
        told = self._tree(end)
        if told == to_tree(from_tree(start), topic_ids(start)) and not is_first:
            # Spark compares the texts: the same offsets in other words would be a micro-batch.
            return dict(start)
        begins = {item: begin[item] for item in end if item not in was_read}
        return with_begins(told, begins) if begins or is_first else told

    def _latest_without_start(self) -> OffsetTree:
        """For PySpark before 4.2. Losses since the start are found where the tasks are planned.

        An end before the start would count as a loss there, and stay in the checkpoint. So the answer of a deposed leader is not
        taken: the start is the end of the last micro-batch, or, where this reader has planned none, as after a restart, every
        node is asked who leads.

        The first answer may be the end of the first micro-batch, so it holds the begin.
        """
        if self._planned is None:
            self._cluster.refresh_leaders()
        last = self._told_last
        if last is None:
            start = from_tree(self.initialOffset())
            told = self._tree(self._cluster.ends(self._planned or start))
            if start:
                told = with_begins(told, start)
        else:
            told = self._tree(self._cluster.ends(self._planned or from_tree(last)))
            if told == to_tree(from_tree(last), topic_ids(last)):
                told = last
        self._told_last = told
        return told

    def reportLatestOffset(self) -> OffsetTree | None:
        return None if self._latest is None else to_tree(self._latest)

    @without_traceback(*USER_ERRORS)
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        last = from_tree(end)
        self._planned = last
        read_as = topic_ids(end)
        self._cluster.were_read_as(read_as)
        self._cluster.were_read_as(topic_ids(start))
        self._cluster.partitions(last)
        begin = {} if is_first_start(start) else self._begin(start, read_as)
        begins = self._begins(start, end)
        new = [item for item in last if item not in begin]
        earliest = self._cluster.earliest_of_those_there(new)
        begin |= {item: begins.get(item, offset) for item, offset in earliest.items()}
        self._check_no_loss(begin, last)
        for partition in sorted(last.keys() - begin.keys()):
            self._lose(f"{partition} is gone before anything of it was read", "goes on without it")
        there = [item for item in sorted(begin) if item in last and not _differ(read_as, self._cluster.topic_ids, item)]
        return _tasks([OffsetRange(item, begin[item], last[item]) for item in there], self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)

    def stop(self) -> None:
        self._cluster.close()

    def _tree(self, offsets: Offsets) -> OffsetTree:
        """The text for the checkpoint: offsets, and the ids of their topics."""
        return to_tree(offsets, self._cluster.topic_ids)

    def _begins(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Offsets:
        """The begin of partitions that no micro-batch has read. Raises OptionError where neither checkpoint nor options say.

        Any other partition is read from its beginning. Before PySpark 4.2 an end says something for a first
        micro-batch alone, and an older oncelog has said nothing.
        """
        told = begins_of(end)
        if not is_first_start(start):
            return (told or {}) if HAS_READ_LIMITS else {}
        if told is not None:
            return told
        known = from_tree(start) or from_tree(self._start())
        if not self._options.starting.has_latest:
            return known
        # An older oncelog read nothing in such a micro-batch, whose end was its start. The latest has moved since.
        last = from_tree(end)
        return {item: min(offset, last.get(item, offset)) for item, offset in known.items()}

    def _begin(self, start: Mapping[str, Any], present: IdsByTopic) -> Offsets:
        """The start of a micro-batch, without topics that were made anew: nothing of those was read."""
        read_as = topic_ids(start)
        return {item: offset for item, offset in from_tree(start).items() if not _differ(read_as, present, item)}

    def _with_new_partitions(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Partitions that were added since are read from their beginning."""
        new = [partition for partition in latest if partition not in begin]
        return {**begin, **self._cluster.earliest(new)}

    def _admitted(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        limits = self._options.limits
        is_few = limits.offsets_min is not None and planning.available(begin, latest) < limits.offsets_min
        if is_few and self._bound is None:
            waited_ms = time.monotonic() * 1000 - self._last_advance_ms
            if waited_ms < limits.delay_ms_max:
                return begin
        if isinstance(limit, ReadMaxRows):
            return planning.limited(begin, latest, limit.max_rows)
        return latest

    def _check_no_loss(self, begin: Offsets, latest: Offsets) -> None:
        for topic in sorted(self._cluster.made_anew):
            self._lose(
                f"topic {topic} was deleted and made anew while it was read", "reads the new one from its beginning"
            )
        self._cluster.made_anew.clear()
        for partition, offset in begin.items():
            if partition not in latest:
                is_meant = self._options.subscription.has(partition)
                what = "is gone" if is_meant else "was read before, and is not subscribed any more"
                self._lose(f"{partition} {what}", "goes on without it")
            elif latest[partition] < offset:
                self._lose(
                    f"{partition} is to be read from offset {offset}, but ends at {latest[partition]}: records were "
                    "deleted, or the topic was made anew",
                    "goes on from its end",
                )

    def _lose(self, what: str, otherwise: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false {otherwise}")
        logger.warning("oncelog: %s; the query %s", what, otherwise)


class RefusedReader(DataSourceStreamReader):
    """The reader of a stream whose options are wrong.

    Spark hides an error of `streamReader` behind one of its own, so the first call of the reader raises it.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    @without_traceback(OptionError)
    def initialOffset(self) -> NoReturn:
        raise OptionError(self._why)

    @without_traceback(OptionError)
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> NoReturn:
        raise OptionError(self._why)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    @without_traceback(OptionError)
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> NoReturn:
        raise OptionError(self._why)

    def read(self, partition: InputPartition) -> NoReturn:
        raise OptionError(self._why)


def _differ(former: IdsByTopic, present: IdsByTopic, partition: TopicPartition) -> bool:
    """True if a partition belongs to another topic now. Where an id is not known, the topic counts as the same."""
    topic = partition.topic
    return topic in former and topic in present and former[topic] != present[topic]


def _tasks(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    partitions_min, records_max = options.min_partitions, options.max_records_per_partition
    tasks = planning.put_together(
        planning.divided(ranges, partitions_min, records_max),
        cores=session_cores(),
        partitions_min=partitions_min,
        partitions_max=options.max_partitions,
        records_max=records_max,
    )
    return [RangePartition(task) for task in tasks]


def _read(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Spark passes a partition of its own where a read has none."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return frozen_after(_without_traceback(read_ranges(partition.ranges, options)), "read")


def _without_traceback(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with without_traceback(*USER_ERRORS):
        yield from rows
