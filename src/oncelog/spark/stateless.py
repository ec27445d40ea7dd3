"""A pipeline without a checkpoint: the offsets committed with the output are all the state there is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from oncelog.client import TopicPartition
from oncelog.client.values import IsolationLevel, OffsetSpec
from oncelog.spark import fence, planning
from oncelog.spark.fence import FenceRecord
from oncelog.spark.metrics import BatchReport, SinkMetrics
from oncelog.spark.offsets import SPECIFICATIONS, Offsets, digest, to_json
from oncelog.spark.options import OptionError
from oncelog.spark.plan import Expectation
from oncelog.spark.sink_settings import SinkSettings, sink_settings
from oncelog.spark.writer import Writer
from oncelog.wire import ErrorCode

Transform = Callable[[DataFrame], DataFrame]

POLL_INTERVAL_MS = 20.0
QUERY_ID = "stateless"


@dataclass(frozen=True, slots=True)
class InputSettings:
    """What to read. `starting` is for partitions without a committed offset."""

    topic: str
    starting: OffsetSpec
    offsets_max: int | None
    include_headers: bool


class StatelessLoop:
    """Reads what is new as a batch DataFrame, transforms it, and commits the result with the input's new offsets.

    Input and output are on one cluster. The transformation must not remember anything from one batch to the next: joins
    and aggregations see one batch only.
    """

    def __init__(
        self,
        spark: SparkSession,
        transform: Transform,
        source: InputSettings,
        sink: SinkSettings,
        on_batch: Callable[[BatchReport], None] | None = None,
    ) -> None:
        """Takes the transactional id, then reads the committed offsets. `on_batch` is told of every batch."""
        self._on_batch = on_batch
        self._spark = spark
        self._transform = transform
        self._source = source
        self._sink = sink
        self._writer = Writer(sink)
        committed = self._writer.committed()
        self._position: Offsets = {
            item: entry.offset for item, entry in committed.items() if item.topic == source.topic
        }
        progress = fence.progress_from(committed)
        last = progress.of_query(QUERY_ID)
        self._next_batch_id = 0 if last is None else last.batch_id + 1
        self.last_batch: BatchReport | None = None
        self.metrics = SinkMetrics()

    def close(self) -> None:
        self._writer.close()

    def run(self, *, once: bool = False, interval_ms: float = 0.0, stop: threading.Event | None = None) -> None:
        """Work until `stop` is set; with `once`, until everything that is there at the start is done.

        `interval_ms` is the least time from one look for new records to the next.
        """
        stopping = threading.Event() if stop is None else stop
        bound = self._latest() if once else None
        while not stopping.is_set():
            if self.run_batch(bound) is None:
                if once:
                    return
                stopping.wait(max(interval_ms, POLL_INTERVAL_MS) / 1000)
            elif interval_ms:
                stopping.wait(interval_ms / 1000)

    def run_batch(self, bound: Offsets | None = None) -> BatchReport | None:
        """Do one batch of what is new, up to `bound` if given; None if there is nothing."""
        latest = self._latest() if bound is None else bound
        self._start_new_partitions(latest)
        start = {item: self._position[item] for item in latest}
        end = latest if self._source.offsets_max is None else planning.limited(start, latest, self._source.offsets_max)
        count = planning.available(start, end)
        if count == 0:
            return None
        record = FenceRecord(QUERY_ID, self._next_batch_id, digest([to_json(end)]))
        report = self._writer.write(
            self._transform(self._read(start, end)),
            record.batch_id,
            Expectation(count, is_proportional=True),
            fence.fence_metadata(record, end),
            lambda: True,
        )
        self._position.update(end)
        self._next_batch_id += 1
        self.last_batch = report
        self.metrics = self.metrics.plus(report)
        if self._on_batch is not None:
            self._on_batch(report)
        return report

    def _read(self, start: Offsets, end: Offsets) -> DataFrame:
        return (
            self._spark.read.format("oncelog")
            .option("kafka.bootstrap.servers", self._sink.bootstrap_servers)
            .option("subscribe", self._source.topic)
            .option("startingOffsets", to_json(start))
            .option("endingOffsets", to_json(end))
            .option("includeHeaders", str(self._source.include_headers).lower())
            .load()
        )

    def _latest(self) -> Offsets:
        client = self._writer.client
        topic = client.metadata([self._source.topic])[self._source.topic]
        if topic.error is not ErrorCode.none:
            raise OptionError(f"topic {self._source.topic!r} cannot be read: {topic.error.name}")
        partitions = [TopicPartition(topic.name, item.partition) for item in topic.partitions]
        return client.end_offsets(partitions, isolation_level=IsolationLevel.READ_COMMITTED)

    def _start_new_partitions(self, latest: Offsets) -> None:
        new = [item for item in latest if item not in self._position]
        if new:
            starting = self._writer.client.list_offsets(dict.fromkeys(new, self._source.starting))
            self._position.update({item: answer.offset for item, answer in starting.items()})


def run_stateless(
    spark: SparkSession,
    transform: Transform,
    *,
    from_topic: str,
    to_topic: str | None,
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
) -> SinkMetrics:
    """Run a stateless pipeline from topic to topic, exactly once, until `stop` is set; with `once`, over what is there.

    `transform` gets a DataFrame with the columns of Spark's Kafka source and returns one with those of its sink.
    `starting_offsets`, "earliest" or "latest", is for the first start only. Raises what the sink raises.
    """
    if starting_offsets not in SPECIFICATIONS:
        raise ValueError(f"starting_offsets is earliest or latest, not {starting_offsets!r}")
    source = InputSettings(from_topic, SPECIFICATIONS[starting_offsets], max_offsets_per_batch, include_headers)
    sink = sink_settings(
        topic=to_topic,
        transactional_id=transactional_id,
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        mode=mode,
        compression=compression,
    )
    loop = StatelessLoop(spark, transform, source, sink, on_batch)
    try:
        loop.run(once=once, interval_ms=interval_ms, stop=stop)
    finally:
        loop.close()
    return loop.metrics
