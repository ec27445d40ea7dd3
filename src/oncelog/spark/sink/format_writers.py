"""What Spark makes of `.format("oncelog")` when it writes: one transaction for a batch DataFrame, or for each micro-batch.

Spark makes such a writer in processes that share nothing: one that plans, those of the tasks, and one that commits. The
first looks up the output's topics; tasks encode; the last takes the transactional id, reads what was committed, and sends.
A writer never hears for certain that something was not committed, so none of them takes anything back.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from oncelog.client import ClientError
from oncelog.spark.checkpoint import CheckpointError
from oncelog.spark.older_pyspark import DataSourceStreamArrowWriter
from oncelog.spark.query import QUERY_ID_PROPERTY, QueryError
from oncelog.spark.session.python_worker import told_in_one_sentence
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink.batch_write import WriteIdError, is_written, record_partitions, was_written, write_entries
from oncelog.spark.sink.delivery import DriverPump
from oncelog.spark.sink.encoded_task import (
    EncodedTask,
    EncodingJob,
    MicroBatch,
    StagedDelivery,
    StagingError,
    new_staging,
    staging_root,
)
from oncelog.spark.sink.fence import FenceError
from oncelog.spark.sink.hanging import HangingTransaction
from oncelog.spark.sink.output import TopicLimits, output_topics, row_encoder
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.stream_commit import StreamSettings, commit_micro_batch
from oncelog.spark.sink.transaction import AttemptsExhausted
from oncelog.spark.sink.writer import Writer, open_client

BATCH_ID_PROPERTY = "streaming.sql.batchId"

SAID = (
    ValueError,
    ClientError,
    AttemptsExhausted,
    CheckpointError,
    FenceError,
    HangingTransaction,
    QueryError,
    StagingError,
    WriteIdError,
)
"""The errors that a user may have to read: Spark tells these without a stack trace."""

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(Shipped, DataSourceArrowWriter):
    """Writes a batch DataFrame. What plans makes it; tasks and the process that commits get copies."""

    def __init__(
        self, settings: SinkSettings, columns: Collection[str], write_id: str | None, staging_location: str | None
    ) -> None:
        """`columns` are those that are written. Raises RowError, WriteIdError, StagingError, or what the client raises."""
        self._settings = settings
        self._write_id = write_id
        # A task that has nothing to write computes nothing.
        self._is_known = write_id is not None and is_written(settings, write_id)
        self._job = _job(settings, columns, staging_location, owner=settings.group_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EncodedTask:
        return self._job.run(iter(()) if self._is_known else iterator, _partition_id(), None)

    @told_in_one_sentence(*SAID)
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._is_known:
            self._commit(_tasks(messages))
        self._job.staging.remove()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._job.staging.remove()

    def _commit(self, tasks: list[EncodedTask]) -> None:
        started_ms = time.monotonic() * 1000
        pump = DriverPump()
        delivery = StagedDelivery(tasks, pump)
        writer = Writer(self._settings)
        try:
            # Whoever had the id may have committed before it was taken, and cannot any more.
            if self._write_id is not None and was_written(
                writer.committed(record_partitions(self._settings.topic)), self._write_id, self._settings.topic
            ):
                return
            entries = write_entries(self._write_id, self._settings.topic, delivery.partitions)
            writer.send(delivery, delivery.partitions, 0, entries, lambda: True, started_ms)
        finally:
            pump.close()
            writer.close()


class StreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes micro-batches. Spark makes two for each: one to plan it, which travels to the tasks, and one to commit it."""

    def __init__(self, settings: StreamSettings, columns: Collection[str]) -> None:
        """`columns` are those that are written."""
        self._settings = settings
        self._columns = columns
        self._job: EncodingJob | None = None

    @told_in_one_sentence(*SAID)
    def __getstate__(self) -> dict[str, Any]:
        """What the tasks need is looked up here: the writer that commits never travels, and needs none of it."""
        if self._job is None:
            settings = self._settings
            self._job = _job(
                settings.sink("planning"), self._columns, settings.staging_location, owner=settings.checkpoint
            )
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EncodedTask:
        assert self._job is not None, "only a writer that travelled is in a task"
        return self._job.run(iterator, _partition_id(), _micro_batch())

    @told_in_one_sentence(*SAID)
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        tasks = _tasks(messages)
        commit_micro_batch(self._settings, tasks, batchId)
        _remove(tasks)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _remove([cast("EncodedTask", message) for message in messages if message is not None])


def _job(settings: SinkSettings, columns: Collection[str], staging_location: str | None, owner: str) -> EncodingJob:
    with open_client(settings) as client:
        topics = output_topics(client, TopicLimits(client), settings, columns)
    return EncodingJob(row_encoder(settings, topics, 0), new_staging(staging_root(staging_location), owner))


def _tasks(messages: Messages) -> list[EncodedTask]:
    """Raises QueryError. Spark commits when every task has written, but for a continuous trigger, whose tasks never do."""
    if None in messages:
        raise QueryError(
            "a task has written nothing, as all of them do with a continuous trigger: use processingTime or availableNow"
        )
    return [cast("EncodedTask", message) for message in messages]


def _remove(tasks: list[EncodedTask]) -> None:
    for staging in {task.staging for task in tasks}:
        staging.remove()


def _partition_id() -> int:
    context = TaskContext.get()
    assert context is not None, "a writer writes in a task"
    return context.partitionId()


def _micro_batch() -> MicroBatch:
    """The micro-batch that this task works for. Raises QueryError."""
    context = TaskContext.get()
    assert context is not None, "a writer writes in a task"
    query_id, batch_id = context.getLocalProperty(QUERY_ID_PROPERTY), context.getLocalProperty(BATCH_ID_PROPERTY)
    if query_id is None or batch_id is None:
        raise QueryError(
            "Spark does not say which micro-batch this is; use foreachBatch(oncelog.spark.exactly_once(...))"
        )
    return MicroBatch(query_id, int(batch_id))
