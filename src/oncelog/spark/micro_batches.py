"""The sink for foreachBatch: a micro-batch, whichever number of tasks wrote it, is one Kafka transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.sql import DataFrame

from oncelog.client import Client, ClientError, OffsetAndMetadata, TopicPartition
from oncelog.spark import fence
from oncelog.spark.checkpoint import BatchOffsets
from oncelog.spark.fence import FenceRecord, Move, Progress
from oncelog.spark.java_errors import without_stack_traces
from oncelog.spark.metrics import BatchReport, SinkMetrics
from oncelog.spark.offsets import Offsets, digest, from_json, is_offsets
from oncelog.spark.plan import Expectation
from oncelog.spark.query import QueryError, RunningQuery, Source, refuse, running_query
from oncelog.spark.sink_settings import SinkSettings
from oncelog.spark.writer import Writer

FENCE_PARTITION = 0


@dataclass(frozen=True, slots=True)
class _Input:
    """What a micro-batch reads, so far as it is Kafka topics."""

    start: Offsets | None
    end: Offsets
    start_digest: str | None
    end_digest: str

    @property
    def offset_count(self) -> int | None:
        """How many offsets it spans; None where that is not known."""
        if self.start is None or not self.end:
            return None
        return sum(max(0, offset - self.start.get(item, 0)) for item, offset in self.end.items())


class _Run:
    """One run of a query: the transactional id taken, and then, only then, what was committed read.

    The order is the proof. A driver that still lived could commit after a read that came first; once the id is taken it
    cannot, and whatever it had committed is to be seen.
    """

    def __init__(self, settings: SinkSettings, query: RunningQuery) -> None:
        self.query = query
        refuse(query)
        self.sources = query.sources()
        self._settings = settings
        self.foreign_servers = foreign_servers(settings.bootstrap_servers, self.sources)
        if self.keeps_offsets_apart and settings.topic is None:
            raise QueryError("the input is not Kafka topics of the output's cluster: name the output with topic=...")
        self.writer = Writer(settings)
        self.progress = fence.progress_from(self.writer.committed())

    @property
    def keeps_offsets_apart(self) -> bool:
        """Whether the input's offsets cannot be committed with the output: the output's cluster lacks those topics."""
        return self.foreign_servers is not None or not any(source.servers for source in self.sources)

    def close(self) -> None:
        self.writer.close()

    def input(self, offsets: BatchOffsets) -> _Input:
        """What a micro-batch reads. Where the first one starts is in its plan, not in the checkpoint."""
        start_lines = offsets.start
        if offsets.batch_id == 0:
            sources = self.query.sources()
            start_lines = [source.start for source in sources] if len(sources) == len(offsets.end) else start_lines
        known = [line for line in start_lines if line is not None]
        complete = len(known) == len(offsets.end)
        return _Input(
            start=_kafka_offsets(known) if complete else None,
            end=_kafka_offsets(offsets.end_lines),
            start_digest=digest(known) if complete else None,
            end_digest=digest(offsets.end_lines),
        )

    def entries(self, record: FenceRecord, end: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit in the transaction, each with the fence record."""
        if not self.keeps_offsets_apart:
            return fence.fence_metadata(record, end)
        if self._settings.topic is None:
            raise QueryError(
                "the input has no Kafka offsets: name the output with topic=..., to keep the progress with it"
            )
        return fence.fence_metadata(record, {}, [TopicPartition(self._settings.topic, FENCE_PARTITION)])

    def tell_input_cluster(self, end: Offsets) -> None:
        """Commit the offsets on the input's own cluster too, after the fact: lag is shown there, nothing depends on it."""
        if self.foreign_servers is None or not end:
            return
        try:
            with Client(self.foreign_servers, client_id=self._settings.client_id) as client:
                client.commit_offsets(
                    self._settings.group_id, {item: OffsetAndMetadata(offset) for item, offset in end.items()}
                )
        except ClientError:
            return


class ExactlyOnceSink:
    """What `exactly_once` returns: give it to `foreachBatch`. One object for one query.

    `last_batch` and `metrics` say how it goes.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._run: _Run | None = None
        self.last_batch: BatchReport | None = None
        self.metrics = SinkMetrics()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one micro-batch, or skip it if the log has it already.

        Raises QueryError, FenceError or CheckpointError where exactly once cannot be had; ProducerFenced,
        OutcomeUnknown or AttemptsExhausted where the transaction did not go through; JavaError where Spark failed. Each
        ends the query.
        """
        started_ms = time.monotonic() * 1000
        try:
            report = self._write(self._current_run(rows), rows, batch_id, started_ms)
        except BaseException as error:
            # What this driver knows may be out of date now. Another run begins with taking the id and reading the log.
            self.close()
            short = without_stack_traces(error)
            if short is error:
                raise
            raise short from None
        self.last_batch = report
        self.metrics = self.metrics.plus(report)

    def close(self) -> None:
        """Close the connections. The next micro-batch, of a query that was started again, opens new ones."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def _current_run(self, rows: DataFrame) -> _Run:
        query = running_query(rows)
        if self._run is not None and self._run.query.run_id != query.run_id:
            self.close()
        if self._run is None:
            self._run = _Run(self._settings, query)
        return self._run

    def _write(self, run: _Run, rows: DataFrame, batch_id: int, started_ms: float) -> BatchReport:
        batch_input = run.input(run.query.offsets(batch_id))
        record = FenceRecord(run.query.query_id, batch_id, batch_input.end_digest)
        batch = fence.Batch(
            query_id=record.query_id,
            batch_id=batch_id,
            end_digest=batch_input.end_digest,
            start_digest=batch_input.start_digest,
            start=None if run.keeps_offsets_apart else batch_input.start,
        )
        if fence.decide(run.progress, batch, trust_checkpoint=self._settings.trust_checkpoint) is Move.SKIP:
            # A stateful query has to write its state again, or it can never go on.
            rows.write.format("noop").mode("append").save()
            return run.writer.skipped(batch_id, time.monotonic() * 1000 - started_ms)
        entries = run.entries(record, batch_input.end)
        expected = Expectation(batch_input.offset_count, is_proportional=run.query.is_stateless)
        report = run.writer.write(rows, batch_id, expected, entries, lambda: run.query.is_active)
        run.progress = Progress((record,), batch_input.end)
        run.tell_input_cluster(batch_input.end)
        return report


def _kafka_offsets(lines: list[str]) -> Offsets:
    """The offsets of all Kafka sources together; of a partition that two of them read, the lower one."""
    merged: Offsets = {}
    for line in lines:
        if is_offsets(line):
            for item, offset in from_json(line).items():
                merged[item] = min(offset, merged.get(item, offset))
    return merged


def foreign_servers(own: str, sources: list[Source]) -> str | None:
    """The bootstrap servers of the input, if they belong to another cluster than the output's. Raises QueryError."""
    servers = {source.servers for source in sources if source.servers is not None}
    foreign = sorted(one for one in servers - {own} if _cluster_id(one) != _cluster_id(own))
    if foreign and len(servers) > 1:
        raise QueryError("the input comes from several clusters; their offsets cannot be kept in one transaction")
    return foreign[0] if foreign else None


def _cluster_id(servers: str) -> str | None:
    with Client(servers) as client:
        return client.describe_cluster().cluster_id
