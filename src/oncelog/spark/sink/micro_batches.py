"""The sink for foreachBatch: a micro-batch, whichever number of tasks wrote it, is one Kafka transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, NoReturn

from pyspark.sql import DataFrame, SparkSession

from oncelog.client import (
    BrokerRefused,
    Client,
    ClientError,
    OffsetAndMetadata,
    ProducerFenced,
    TopicPartition,
    TransactionalIdExpired,
)
from oncelog.spark.batch_input import CARRIER_PARTITION, BatchInput, InputClusters, batch_input, input_clusters
from oncelog.spark.causes import raise_for_spark
from oncelog.spark.metrics import BatchReport, RecentReports, SinkMetrics
from oncelog.spark.plan import Expectation
from oncelog.spark.query import QueryError, RunningQuery, SparkConnectError, refuse, refuse_connect, running_query
from oncelog.spark.sink import fence
from oncelog.spark.sink.fence import FenceProgress, FenceRecord, Verdict
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.writer import Writer, cluster_of, decided, look_first, open_client, skipped_report
from oncelog.wire import ErrorCode

_given: dict[tuple[str, str], tuple[str, int]] = {}
"""The last run and micro-batch of each cluster and group in this process.

One that failed does not count: it may be given again.
"""
_giving = threading.Lock()


class _Run:
    """One run of a query: it takes the transactional id, and only then reads the committed offsets.

    The order is the proof. A driver that is still alive could commit after an earlier read. Once the id is taken it cannot, and
    everything that it has committed is seen.
    """

    def __init__(
        self, settings: SinkSettings, query: RunningQuery, clusters: InputClusters, read: BatchInput, writer: Writer
    ) -> None:
        self.query = query
        self.clusters = clusters
        self.writer = writer
        self.progress = writer.progress(read.committed(settings.topic))
        self._settings = settings

    def close(self) -> None:
        self.writer.close()

    def record(self, batch_id: int, read: BatchInput) -> FenceRecord:
        """The fence record of a micro-batch that is computed, but not written yet."""
        return FenceRecord(
            query_id=self.query.query_id,
            batch_id=batch_id,
            offsets_digest=read.end_digest,
            sequence=self.progress.next_sequence,
            watermark_ms=None if self.query.is_stateless else self.query.advance_watermark(),
            query_name=self.query.name,
        )

    def entries(self, record: FenceRecord, read: BatchInput) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit in the transaction, each with the fence record."""
        if read.end:
            return fence.fence_metadata(record, read.end, unclear=read.unclear)
        assert self._settings.topic is not None, "a run without a carrier is refused"
        return fence.fence_metadata(record, {}, carrier=TopicPartition(self._settings.topic, CARRIER_PARTITION))

    def commit_on_input_clusters(self, record: FenceRecord, read: BatchInput) -> None:
        """Commit the offsets on the input's own clusters after the transaction, for tools that show the lag."""
        for servers, end in read.foreign_end.items():
            try:
                security = self.clusters.security[servers]
                with Client(servers, client_id=self._settings.client_id, security=security) as client:
                    client.commit_offsets(self._settings.group_id, fence.fence_metadata(record, end))
            except ClientError:
                continue


class _AskedBatch(NamedTuple):
    """A micro-batch that Spark asks for, in the run of its query."""

    run: _Run
    batch: fence.Batch
    read: BatchInput


class ExactlyOnceSink:
    """The sink that `exactly_once` returns, for `foreachBatch`. One object for one query.

    `last_batch`, `report` and `metrics` describe its micro-batches.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._run: _Run | None = None
        self._place: tuple[str, str] | None = None
        self._reports = RecentReports()
        self.last_batch: BatchReport | None = None
        self.metrics = SinkMetrics()

    @property
    def description(self) -> str:
        """The output and the transactional id."""
        output = "the column topic" if self._settings.topic is None else self._settings.topic
        return f"oncelog[{output}] of {self._settings.transactional_id}"

    def report(self, batch_id: int) -> BatchReport | None:
        """The report of a micro-batch, if it is one of the last hundred of this sink. Any thread may ask."""
        return self._reports.of(batch_id)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one micro-batch, or skip it if the log has it already.

        Raises QueryError, FenceError, CheckpointError or HangingTransaction where exactly once cannot be had; ProducerFenced,
        OutcomeUnknown or AttemptsExhausted where the transaction did not go through; JavaError where Spark failed. Each
        ends the query.
        """
        started_ms = time.monotonic() * 1000
        with self._closed_by_errors():
            report = self._write(rows, batch_id, started_ms)
        self._reports.add(report)
        self.last_batch = report
        self.metrics = self.metrics.plus(report)

    def sequence(self, batch_id: int) -> int:
        """The number of a micro-batch among all that are committed for the group, from 0, by whichever checkpoint.

        Call it in foreachBatch before the sink, to name other output of the micro-batch uniquely. A repeated micro-batch has the
        same number again. Batch ids begin at 0 with another checkpoint; these numbers continue.

        Takes the transactional id. Raises what a call of the sink raises.
        """
        with self._closed_by_errors():
            session = SparkSession.active()
            refuse_connect(session)
            query = running_query(session)
            self._leave_other_runs(query)
            asked = self._begin(query, batch_id) if self._run is None else self._go_on(self._run, batch_id)
            if self._verdict(asked) is Verdict.SKIP:
                return _last(asked.run).sequence
            return asked.run.progress.next_sequence

    def close(self) -> None:
        """Close the connections. The next micro-batch, of a query that was started again, opens new ones."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def __reduce__(self) -> NoReturn:
        """Raise SparkConnectError: only Spark Connect sends a sink to another process."""
        raise SparkConnectError

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Close the run after an error, for its knowledge may be out of date. The next run takes the id and reads the log anew."""
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise_for_spark(error)
            raise

    def _write(self, rows: DataFrame, batch_id: int, started_ms: float) -> BatchReport:
        refuse_connect(rows.sparkSession)
        query = running_query(rows.sparkSession)
        place, given = self._place_of_progress(), (query.run_id, batch_id)
        # Sinks of one group may be called by several threads at once: only one of them puts its entry there.
        with _giving:
            before = _given.get(place)
            _given[place] = given
        if before == given:
            raise QueryError(
                f"micro-batch {batch_id} is committed for group {self._settings.group_id!r} with what a sink was given before: "
                "what is given now would be taken for a repetition, and lost. Write it with a sink that has a transactional id "
                "and a group of its own, or put all outputs into one DataFrame with a column `topic`"
            )
        try:
            return self._write_for(query, rows, batch_id, started_ms)
        except BaseException:
            with _giving:
                if _given.get(place) == given:
                    del _given[place]
            raise

    def _place_of_progress(self) -> tuple[str, str]:
        """The cluster that keeps the progress, and the group. A cluster is known by its id: it may have several addresses."""
        if self._place is None:
            self._place = cluster_of(self._settings), self._settings.group_id
        return self._place

    def _write_for(self, query: RunningQuery, rows: DataFrame, batch_id: int, started_ms: float) -> BatchReport:
        self._leave_other_runs(query)
        if self._run is None:
            return self._write_in(self._begin(query, batch_id), rows, batch_id, started_ms)
        try:
            return self._write_in(self._go_on(self._run, batch_id), rows, batch_id, started_ms)
        except TransactionalIdExpired:
            pass  # The log tells whether another producer has had the id meanwhile.
        except ProducerFenced as fenced:
            # The coordinator does not know this producer any more, and may have forgotten the id meanwhile.
            if fenced.error is not ErrorCode.invalid_producer_id_mapping:
                raise
        except BrokerRefused as refused:
            # A topic was deleted in the middle of the micro-batch. Reading the log again finds out which one.
            if refused.error is not ErrorCode.unknown_topic_or_partition:
                raise
        self.close()
        return self._write_in(self._begin(query, batch_id), rows, batch_id, started_ms)

    def _leave_other_runs(self, query: RunningQuery) -> None:
        if self._run is not None and self._run.query.run_id != query.run_id:
            self.close()

    def _begin(self, query: RunningQuery, batch_id: int) -> _AskedBatch:
        """Begin a run with a micro-batch: refuse it, or take the transactional id."""
        refuse(query)
        clusters = input_clusters(self._settings.bootstrap_servers, self._settings.security, query.sources())
        with open_client(self._settings) as client:
            read = self._input(query, clusters, batch_id, client)
            batch = _batch(query, read, batch_id)
            look_first(client, self._settings, batch, read.committed(self._settings.topic))
        self._run = _Run(self._settings, query, clusters, read, Writer(self._settings))
        return _AskedBatch(self._run, batch, read)

    def _go_on(self, run: _Run, batch_id: int) -> _AskedBatch:
        read = self._input(run.query, run.clusters, batch_id)
        return _AskedBatch(run, _batch(run.query, read, batch_id), read)

    def _verdict(self, asked: _AskedBatch) -> Verdict:
        return decided(asked.run.writer.client, self._settings, asked.run.progress, asked.batch)

    def _input(
        self, query: RunningQuery, clusters: InputClusters, batch_id: int, client: Client | None = None
    ) -> BatchInput:
        """The input of a micro-batch; with a client, as at the begin of a run, without partitions that were deleted since."""
        read = batch_input(clusters, query.offsets(batch_id), query.starts() if batch_id == 0 else [])
        if client is not None:
            read = read.without_deleted_partitions(client)
        if not read.end and self._settings.topic is None:
            raise QueryError("the input has no topics of the output's cluster: name the output with topic=...")
        self._settings.refuse_own_input(read.topics, self._settings.named_outputs)
        return read

    def _write_in(self, asked: _AskedBatch, rows: DataFrame, batch_id: int, started_ms: float) -> BatchReport:
        run, read = asked.run, asked.read
        if self._verdict(asked) is Verdict.SKIP:
            _skip(rows, run, batch_id)
            report = skipped_report(batch_id, time.monotonic() * 1000 - started_ms, run.writer.identity)
            return replace(report, sequence=_last(run).sequence)
        record: FenceRecord | None = None

        def entries(written: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
            nonlocal record
            self._settings.refuse_own_input(read.topics, (item.topic for item in written))
            record = run.record(batch_id, read)
            return run.entries(record, read)

        expected = Expectation(read.offset_count, is_proportional=run.query.is_stateless)
        report = run.writer.write(rows, batch_id, expected, entries, lambda: run.query.is_active)
        assert record is not None, "what was written has a fence record"
        run.progress = FenceProgress(record, read.end, read.unclear)
        run.writer.keep(record, read.committed(self._settings.topic))
        run.commit_on_input_clusters(record, read)
        return replace(report, input_offsets=read.offset_count, sequence=record.sequence)


def _batch(query: RunningQuery, read: BatchInput, batch_id: int) -> fence.Batch:
    age_ms = time.time() * 1000 - read.planned_ms
    return fence.Batch(query.query_id, batch_id, read.end_digest, read.start_digest, read.start, age_ms, query.name)


def _skip(rows: DataFrame, run: _Run, batch_id: int) -> None:
    """Leave a micro-batch that is committed as it is.

    All of it was computed before the transaction ended, so its state is in the checkpoint. That state is kept: computed again, by
    a function that reads a clock or asks a service, it could differ from what was published. Where it cannot be kept the
    micro-batch is computed once more, or a stateful query could never continue.
    """
    last = _last(run)
    if last.watermark_ms is not None and run.query.has_state_of(batch_id):
        run.query.keep_state(last.watermark_ms)
    else:
        rows.write.format("noop").mode("append").save()


def _last(run: _Run) -> FenceRecord:
    assert run.progress.last is not None, "what is skipped was committed"
    return run.progress.last
