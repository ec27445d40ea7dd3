"""A pipeline without a checkpoint: the offsets committed with the output are all the state there is."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from oncelog.client import OffsetAndMetadata, TopicPartition
from oncelog.client.net.rights import topic_error
from oncelog.client.values import IsolationLevel, OffsetSpec
from oncelog.spark.metrics import BatchReport, SinkMetrics
from oncelog.spark.offsets import SPECIFICATIONS, Offsets, digest, to_json
from oncelog.spark.options.security_options import security_of
from oncelog.spark.options.source_options import check_source_options
from oncelog.spark.options.table import OptionError
from oncelog.spark.plan import Expectation
from oncelog.spark.query import refuse_connect
from oncelog.spark.sink import fence
from oncelog.spark.sink.delivery import CollectedBatches, DriverSender
from oncelog.spark.sink.fence import FenceRecord
from oncelog.spark.sink.kept_groups import StartedTopics
from oncelog.spark.sink.settings import SinkSettings, sink_settings
from oncelog.spark.sink.writer import Writer
from oncelog.spark.source import planning
from oncelog.spark.source.errors import DataLossError
from oncelog.spark.statefulness import check_needs_no_memory
from oncelog.spark.user_function import Transform, inputs_of, output_of, output_topic
from oncelog.wire import ErrorCode

POLL_INTERVAL_MS = 20.0
QUERY_ID = "stateless"
RENEWAL_INTERVAL_MS = 60_000.0
"""A pipeline without new records commits its offsets again after this time.

A broker deletes them, and forgets the transactional id, 7 days after the last commit by default and a minute at the least
(offsets.retention.minutes). A user need not have the right to see that setting.
"""


@dataclass(frozen=True, slots=True)
class InputSettings:
    """The input: the topics of each DataFrame. `starting`, EARLIEST or LATEST, is for the first start only.

    `offsets_max` is for each DataFrame; `options` are further ones of the source.
    """

    topics: tuple[tuple[str, ...], ...]
    starting: OffsetSpec
    offsets_max: int | None
    include_headers: bool
    options: Mapping[str, str]

    @property
    def all_topics(self) -> list[str]:
        return sorted({topic for topics in self.topics for topic in topics})


class TopicIds:
    """The ids under which a group has read its topics. A committed offset means nothing in a topic that was made anew."""

    def __init__(self, group_id: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._group_id = group_id
        self._seen: dict[str, set[UUID]] = {}
        for item, entry in committed.items():
            topic_id = fence.topic_id_of(entry.metadata)
            if topic_id is not None:
                self._seen.setdefault(item.topic, set()).add(topic_id)

    def known(self) -> dict[str, UUID]:
        return {name: topic_id for name, (topic_id,) in self._seen.items()}

    def check(self, name: str, topic_id: UUID | None) -> None:
        """Raises DataLossError. Brokers before Kafka 2.8 give topics no ids (KIP-516)."""
        if topic_id is None:
            return
        seen = self._seen.setdefault(name, set())
        seen.add(topic_id)
        if len(seen) > 1:
            raise DataLossError(
                f"topic {name} was deleted and made anew while it was read; say where to read it from with oncelog groups "
                f"reset-offsets {self._group_id} --topic {name}"
            )


class StatelessLoop:
    """Reads what is new as batch DataFrames, transforms them, and commits the result with the inputs' new offsets.

    Inputs and outputs are on one cluster.
    """

    def __init__(
        self,
        spark: SparkSession,
        transform: Transform,
        source: InputSettings,
        sink: SinkSettings,
        targets: Sequence[str],
        on_batch: Callable[[BatchReport], None] | None = None,
        kafka_options: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the transactional id, then reads the committed offsets. `on_batch` is told of every batch.

        Raises NeedsCheckpoint, FunctionError or QueryError before it takes anything.
        """
        refuse_connect(spark)
        sink.refuse_own_input(source.all_topics, targets)
        check_needs_no_memory(spark, transform, len(source.topics), targets, include_headers=source.include_headers)
        self._targets = targets
        self._on_batch = on_batch
        self._spark = spark
        self._transform = transform
        self._source = source
        self._sink = sink
        self._kafka_options = dict(kafka_options or {})
        self.last_batch: BatchReport | None = None
        self.metrics = SinkMetrics()
        self._writer = Writer(sink)
        try:
            self._go_on_from(self._writer.committed(self._writer.partitions_of(source.all_topics)))
        except BaseException:
            self._writer.close()
            raise

    def _go_on_from(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take over what the group has committed. Raises FenceError."""
        progress = fence.progress_from(committed)
        newest = progress.newest
        self._next_batch_id = newest.batch_id + 1 if newest is not None and newest.query_id == QUERY_ID else 0
        self._sequence = progress.next_sequence
        topics, group_id = self._source.all_topics, self._sink.group_id
        self._committed = {item: entry for item, entry in committed.items() if item.topic in topics}
        self._committed_ms = -math.inf
        self._position: Offsets = {item: entry.offset for item, entry in self._committed.items()}
        self._topic_ids = TopicIds(group_id, self._committed)
        self._started = StartedTopics(self._writer.client, group_id)
        known = {item.topic for item in self._position}
        self._started.refuse_unless_committed(topics, known)
        self._started.add(known)

    def close(self) -> None:
        self._writer.close()

    def run(self, *, once: bool = False, interval_ms: float = 0.0, stop: threading.Event | None = None) -> None:
        """Work until `stop` is set; with `once`, until everything that is there at the start is done.

        `interval_ms` is the least time from one look for new records to the next.
        """
        stopping = threading.Event() if stop is None else stop
        bound = self._ends(self._partitions()) if once else None
        while not stopping.is_set():
            if self.run_batch(bound) is not None:
                self._rest(interval_ms, stopping)
                continue
            self._renew()
            if once:
                return
            self._rest(max(interval_ms, POLL_INTERVAL_MS), stopping)

    def _rest(self, interval_ms: float, stopping: threading.Event) -> None:
        end_ms = _now_ms() + interval_ms
        while not stopping.is_set() and (left_ms := end_ms - _now_ms()) > 0:
            stopping.wait(min(left_ms, RENEWAL_INTERVAL_MS) / 1000)
            self._renew()

    def _renew(self) -> None:
        """Commit the offsets again as they are, if they are a while old: brokers delete old ones."""
        if self._committed and _now_ms() - self._committed_ms >= RENEWAL_INTERVAL_MS:
            self._commit(self._committed)

    def run_batch(self, bound: Offsets | None = None) -> BatchReport | None:
        """Do one batch of what is new, up to `bound` if given; None if there is nothing."""
        partitions = self._partitions()
        latest = self._ends(partitions) if bound is None else bound
        self._start_new_partitions(latest)
        start = {item: self._position[item] for item in latest}
        _check_no_loss(start, latest)
        end = self._admitted(start, latest)
        count = planning.available(start, end)
        if count == 0:
            return None
        batch_id, sequence = self._next_batch_id, self._sequence
        entries = self._entries(batch_id, end)

        def committed(written: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
            self._sink.refuse_own_input(self._source.all_topics, (item.topic for item in written))
            return entries

        inputs = [self._read(_of(start, topics), _of(end, topics)) for topics in self._source.topics]
        report = self._writer.write(
            output_of(self._transform, self._transform(*inputs), self._targets),
            batch_id,
            Expectation(count, is_proportional=True),
            committed,
            lambda: True,
        )
        self._note(entries)
        self._position.update(end)
        self._next_batch_id += 1
        report = replace(report, input_offsets=count, lag=planning.available(end, latest), sequence=sequence)
        self.last_batch = report
        self.metrics = self.metrics.plus(report)
        if self._on_batch is not None:
            self._on_batch(report)
        return report

    def _admitted(self, start: Offsets, latest: Offsets) -> Offsets:
        """The end of this batch."""
        if self._source.offsets_max is None:
            return latest
        end: Offsets = {}
        for topics in self._source.topics:
            end |= planning.limited(_of(start, topics), _of(latest, topics), self._source.offsets_max)
        return end

    def _read(self, start: Offsets, end: Offsets) -> DataFrame:
        assigned: dict[str, list[int]] = {}
        for item in end:
            assigned.setdefault(item.topic, []).append(item.partition)
        return (
            self._spark.read.format("oncelog")
            .option("kafka.bootstrap.servers", self._sink.bootstrap_servers)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", to_json(start))
            .option("endingOffsets", to_json(end))
            .option("includeHeaders", str(self._source.include_headers).lower())
            .options(**self._source.options, **self._kafka_options)
            .load()
        )

    def _partitions(self) -> list[TopicPartition]:
        """The partitions to read. Raises OptionError, and DataLossError where a topic was made anew."""
        partitions: list[TopicPartition] = []
        for name, topic in self._writer.client.metadata(self._source.all_topics).items():
            if topic.error is not ErrorCode.none:
                raise OptionError(f"topic {name!r} cannot be read: {topic_error(name, topic.error)}")
            self._topic_ids.check(name, topic.topic_id)
            partitions += [TopicPartition(name, item.partition) for item in topic.partitions]
        return partitions

    def _ends(self, partitions: Sequence[TopicPartition]) -> Offsets:
        level = IsolationLevel.READ_COMMITTED
        return self._writer.client.end_offsets(partitions, isolation_level=level, at_least=self._position)

    def _start_new_partitions(self, latest: Offsets) -> None:
        """Commit the start of partitions that were not read before.

        Only a first start may be at the end: a partition that comes later may have records from before it was seen.
        The topics are noted after that, and before anything is read: a start that failed does not count as one that read.
        """
        new = [item for item in latest if item not in self._position]
        if not new:
            return
        if not self._position and self._source.starting is OffsetSpec.LATEST:
            starts = latest
        else:
            starts = self._writer.client.beginning_offsets(new)
        position = {**self._position, **starts}
        self._commit(self._entries(self._next_batch_id - 1, position))
        self._started.add(item.topic for item in new)
        self._position = position

    def _commit(self, entries: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets in a transaction without records, as a micro-batch without rows does."""
        nothing = CollectedBatches([], (), DriverSender())
        self._writer.send(nothing, self._next_batch_id, entries, lambda: True, _now_ms())
        self._note(entries)

    def _note(self, entries: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Remember what was committed."""
        self._committed, self._committed_ms = {**self._committed, **entries}, _now_ms()

    def _entries(self, batch_id: int, end: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit next."""
        record = FenceRecord(QUERY_ID, batch_id, digest([to_json(end)]), self._sequence)
        self._sequence += 1
        return fence.fence_metadata(record, end, topic_ids=self._topic_ids.known())


def run_stateless(
    spark: SparkSession,
    transform: Transform,
    *,
    from_topic: str | Sequence[str],
    to_topic: str | Sequence[str] | None,
    bootstrap_servers: str,
    transactional_id: str,
    group_id: str | None = None,
    starting_offsets: str = "earliest",
    max_offsets_per_batch: int | None = None,
    include_headers: bool = False,
    once: bool = False,
    interval_ms: float = 0.0,
    stop: threading.Event | None = None,
    mode: str = "auto",
    compression: str = "none",
    on_batch: Callable[[BatchReport], None] | None = None,
    kafka_options: Mapping[str, str] | None = None,
    source_options: Mapping[str, str] | None = None,
    write_to_input: bool = False,
) -> SinkMetrics:
    """Run a stateless pipeline from topic to topic, exactly once, until `stop` is set; with `once`, over what is there.

    `transform` gets one DataFrame for each topic to read, or one of all of them if it needs only one; the columns are those
    of Spark's Kafka source. It returns one with the columns of Spark's Kafka sink; for several topics to write a sequence
    or a dictionary of one for each, or one with a column `topic`. Where no topic is named, a column or the dictionary says
    it. All that a batch gives is one transaction.

    `starting_offsets`, "earliest" or "latest", is for the first start only, and where that starts is committed before
    anything is read. Partitions and topics that are added later are read from their beginning. A group whose offsets have
    expired is not started anew: that raises FenceError.
    `max_offsets_per_batch` limits each DataFrame. `kafka_options` are those of TLS and SASL, with the prefix `kafka.`, for
    reading and for writing. `source_options` are further ones for reading, such as failOnDataLoss. `write_to_input` allows it
    to write to a topic that it reads, which is refused otherwise.
    Raises OptionError, FunctionError where function and topics do not fit, NeedsCheckpoint where the function has to remember
    something from batch to batch, DataLossError where a topic was made anew, and what the sink raises.
    """
    if starting_offsets not in SPECIFICATIONS:
        raise ValueError(f"starting_offsets is earliest or latest, not {starting_offsets!r}")
    check_source_options(source_options or {})
    targets = _names(to_topic)
    source = InputSettings(
        inputs_of(transform, _names(from_topic)),
        SPECIFICATIONS[starting_offsets],
        max_offsets_per_batch,
        include_headers,
        dict(source_options or {}),
    )
    sink = sink_settings(
        topic=output_topic(targets),
        transactional_id=transactional_id,
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        mode=mode,
        compression=compression,
        security=security_of(kafka_options or {}),
        write_to_input=write_to_input,
    )
    loop = StatelessLoop(spark, transform, source, sink, targets, on_batch, kafka_options)
    try:
        loop.run(once=once, interval_ms=interval_ms, stop=stop)
    finally:
        loop.close()
    return loop.metrics


def _check_no_loss(start: Offsets, latest: Offsets) -> None:
    """Raises DataLossError. That records were deleted before they were read, reading itself finds out."""
    for item, offset in start.items():
        if latest[item] < offset:
            raise DataLossError(
                f"{item} was read up to offset {offset}, but ends at {latest[item]}: the topic was made anew"
            )


def _now_ms() -> float:
    return time.monotonic() * 1000


def _names(topics: str | Sequence[str] | None) -> tuple[str, ...]:
    if topics is None:
        return ()
    return (topics,) if isinstance(topics, str) else tuple(topics)


def _of(offsets: Offsets, topics: Sequence[str]) -> Offsets:
    return {item: offset for item, offset in offsets.items() if item.topic in topics}
