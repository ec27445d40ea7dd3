"""The writers behind `.format("oncelog")`: one transaction for a batch DataFrame, or for each micro-batch.

Spark makes such a writer in processes that share nothing: one that plans, those of the tasks, and one that commits. The
first looks up the output's topics; tasks encode; the last takes the transactional id, reads the committed offsets, and sends.
Spark never tells a writer for certain that nothing was committed, so none of them takes anything back.

The process that commits sees neither query nor Spark. It reads the query and the input of the micro-batch from the checkpoint
files, which are the same as for foreachBatch. So is the fence record: a query may change from one to the other with its
checkpoint, its transactional id and its group.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from oncelog.client import Client, ClientError, TopicPartition
from oncelog.client.descriptions import TopicDescription
from oncelog.spark.batch_input import CARRIER_PARTITION, BatchInput, InputClusters, batch_input
from oncelog.spark.checkpoint import BatchOffsets, CheckpointError, CheckpointFiles, LocalFiles, batch_offsets
from oncelog.spark.metrics import BatchReport
from oncelog.spark.offsets import from_json, is_offsets, topic_ids
from oncelog.spark.older_pyspark import DataSourceStreamArrowWriter
from oncelog.spark.options.table import LOCAL, OptionError, scheme_and_path
from oncelog.spark.query import QUERY_ID_PROPERTY, QueryError
from oncelog.spark.session.python_worker import without_traceback
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink import fence
from oncelog.spark.sink.batch_write import WriteIdError, is_written, record_partitions, was_written, write_entries
from oncelog.spark.sink.delivery import DriverSender
from oncelog.spark.sink.encoded_task import (
    EncodedTask,
    EncodingJob,
    MicroBatch,
    StagedDelivery,
    StagingError,
    new_staging,
    staging_root,
)
from oncelog.spark.sink.fence import FenceError, FenceRecord, Verdict
from oncelog.spark.sink.hanging import HangingTransaction
from oncelog.spark.sink.output import TopicLimits, output_topics, row_encoder
from oncelog.spark.sink.settings import QUERY_PLACEHOLDER, SinkSettings, sink_settings
from oncelog.spark.sink.transaction import AttemptsExhausted
from oncelog.spark.sink.writer import Writer, decided, look_first, open_client, skipped_report

QUERY_METADATA = "metadata"
TRANSACTIONAL_ID_PREFIX = "oncelog-query-"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The settings of a stream's sink, as the user gave them. Without a transactional id the query's id is used for one.

    `query_name` is None where the query has none.
    """

    arguments: Mapping[str, Any]
    checkpoint: str
    staging_location: str | None
    query_name: str | None

    def sink(self, query_id: str) -> SinkSettings:
        known = {"topic": None, "bootstrap_servers": None, **self.arguments}
        return sink_settings(**{"transactional_id": f"{TRANSACTIONAL_ID_PREFIX}{query_id}", **known})


def stream_settings(arguments: Mapping[str, Any]) -> StreamSettings:
    """Check the settings before the query is known. Raises OptionError or ValueError."""
    rest = dict(arguments)
    query_name = rest.pop("query_name", None)
    checkpoint = _local_path(rest.pop("checkpoint_location", None))
    staging_location = rest.pop("staging_location", None)
    settings = StreamSettings(_named_by_query(rest, query_name), checkpoint, staging_location, query_name)
    settings.sink("any")
    return settings


def _named_by_query(arguments: dict[str, Any], query_name: str | None) -> dict[str, Any]:
    """Put the query's name into arguments that have a place for it. Queries that are flows of one sink differ in it alone."""
    named = dict(arguments)
    for name, option in (("transactional_id", "kafka.transactional.id"), ("group_id", "kafka.group.id")):
        if QUERY_PLACEHOLDER not in named.get(name, ""):
            continue
        if not query_name:
            raise OptionError(
                f"option {option} has {QUERY_PLACEHOLDER} in it, and this query has no name: give it one with "
                "writeStream.queryName(...), and keep it"
            )
        named[name] = named[name].replace(QUERY_PLACEHOLDER, query_name)
    return named


def _local_path(location: str | None) -> str:
    if not location:
        raise OptionError(
            "option checkpointLocation is needed on this query: a sink of this kind cannot see one that is set for the "
            "session with spark.sql.streaming.checkpointLocation"
        )
    scheme, path = scheme_and_path(location)
    if scheme not in LOCAL:
        raise OptionError(
            f"option checkpointLocation: a sink of this kind reads the checkpoint as files, and not from {scheme}:. "
            "Use writeStream.foreachBatch(oncelog.spark.exactly_once(...)), which reads it wherever Spark can"
        )
    return path


def commit_micro_batch(settings: StreamSettings, tasks: Sequence[EncodedTask], batch_id: int) -> BatchReport:
    """Write a micro-batch that the tasks have encoded, or leave it if the log has it already.

    Raises CheckpointError, QueryError or FenceError where exactly once cannot be had, RowError for rows that cannot be
    written, StagingError where encoded rows are gone, and what `Transactions.commit` raises.
    """
    started_ms = time.monotonic() * 1000
    files = LocalFiles(settings.checkpoint)
    query_id = _query_id(files, settings.checkpoint)
    _check_tasks(tasks, query_id, batch_id, settings.checkpoint)
    sink = settings.sink(query_id)
    driver = DriverSender()
    delivery = StagedDelivery(tasks, driver)
    with open_client(sink) as client:
        read = _input(client, batch_offsets(files, batch_id))
        if not read.end and sink.topic is None:
            raise QueryError("the input has no topics of the output's cluster: name the output with option topic")
        written = [*sink.named_outputs, *(item.topic for item in delivery.partitions)]
        sink.refuse_own_input(read.topics, written)
        age_ms = time.time() * 1000 - read.planned_ms
        name = settings.query_name
        batch = fence.Batch(query_id, batch_id, read.end_digest, read.start_digest, read.start, age_ms, name)
        look_first(client, sink, batch, read.committed(sink.topic))
    writer = Writer(sink)
    try:
        progress = writer.progress(read.committed(sink.topic))
        if decided(writer.client, sink, progress, batch) is Verdict.SKIP:
            return skipped_report(batch_id, time.monotonic() * 1000 - started_ms, writer.identity)
        record = FenceRecord(query_id, batch_id, read.end_digest, progress.next_sequence, query_name=name)
        carrier = None if read.end or sink.topic is None else TopicPartition(sink.topic, CARRIER_PARTITION)
        entries = fence.fence_metadata(record, read.end, unclear=read.unclear, carrier=carrier)
        report = writer.send(delivery, batch_id, entries, lambda: True, started_ms)
        writer.keep(record, entries)
        return report
    finally:
        driver.close()
        writer.close()


def _query_id(files: CheckpointFiles, checkpoint: str) -> str:
    text = files.read(QUERY_METADATA)
    if text is None and not os.path.isabs(checkpoint):
        raise CheckpointError(
            f"there is no checkpoint in {checkpoint}, seen from {os.getcwd()}: over Spark Connect this process works in another "
            "directory than the driver. Give checkpointLocation as an absolute path"
        )
    if text is None:
        raise CheckpointError(
            f"there is no checkpoint in {checkpoint} on the driver's machine. If it is on HDFS or in an object store, use "
            "writeStream.foreachBatch(oncelog.spark.exactly_once(...)), which reads it wherever Spark can"
        )
    return str(json.loads(text)["id"])


def _check_tasks(tasks: Sequence[EncodedTask], query_id: str, batch_id: int, checkpoint: str) -> None:
    """Raise CheckpointError where the tasks worked for another query or micro-batch than the checkpoint's."""
    for task in tasks:
        worked_for = task.micro_batch
        if worked_for is None or (worked_for.query_id, worked_for.batch_id) != (query_id, batch_id):
            raise CheckpointError(
                f"the checkpoint in {checkpoint} on the driver's machine is of another query than the one that runs"
            )


def _input(client: Client, offsets: BatchOffsets) -> BatchInput:
    """The input of a micro-batch."""
    told = [line if line is not None and is_offsets(line) else "{}" for line in offsets.end]
    places = {partition for line in told for partition in from_json(line)}
    described = client.metadata({partition.topic for partition in places}, wanted=places)
    own = own_sources(told, described)
    return batch_input(InputClusters(len(told), own, {}), offsets, []).without_deleted_partitions(client)


def own_sources(told: Sequence[str], described: Mapping[str, TopicDescription]) -> frozenset[int]:
    """The sources of the output's cluster: it has all of their partitions.

    Where some were deleted, a source belongs to it that has the id of one of its topics. `told` has the offsets of each as JSON.
    """
    known = {TopicPartition(name, item.partition) for name, topic in described.items() for item in topic.partitions}
    ids = {topic.topic_id for topic in described.values() if topic.topic_id is not None}
    lines = [from_json(line) for line in told]
    return frozenset(
        place
        for place, (text, line) in enumerate(zip(told, lines, strict=True))
        if line and (line.keys() <= known or not ids.isdisjoint(topic_ids(json.loads(text)).values()))
    )


BATCH_ID_PROPERTY = "streaming.sql.batchId"

USER_ERRORS = (
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
"""Errors for the user, which Spark reports without a stack trace."""

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(Shipped, DataSourceArrowWriter):
    """Writes a batch DataFrame. The planning process makes it; tasks and the process that commits get copies."""

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

    @without_traceback(*USER_ERRORS)
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._is_known:
            self._commit(_tasks(messages))
        self._job.staging.remove()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._job.staging.remove()

    def _commit(self, tasks: list[EncodedTask]) -> None:
        started_ms = time.monotonic() * 1000
        driver = DriverSender()
        delivery = StagedDelivery(tasks, driver)
        writer = Writer(self._settings)
        try:
            # The producer before may have committed before it was fenced, and cannot any more.
            if self._write_id is not None and was_written(
                writer.committed(record_partitions(self._settings.topic)), self._write_id, self._settings.topic
            ):
                return
            entries = write_entries(self._write_id, self._settings.topic, delivery.partitions)
            writer.send(delivery, 0, entries, lambda: True, started_ms)
        finally:
            driver.close()
            writer.close()


class StreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes micro-batches. Spark makes two for each: one to plan it, which travels to the tasks, and one to commit it."""

    def __init__(self, settings: StreamSettings, columns: Collection[str]) -> None:
        """`columns` are those that are written."""
        self._settings = settings
        self._columns = columns
        self._job: EncodingJob | None = None

    @without_traceback(*USER_ERRORS)
    def __getstate__(self) -> dict[str, Any]:
        """Look up the topics for the tasks: the writer that commits never travels, and needs none of it."""
        if self._job is None:
            settings = self._settings
            self._job = _job(
                settings.sink("planning"), self._columns, settings.staging_location, owner=settings.checkpoint
            )
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EncodedTask:
        assert self._job is not None, "only a writer that travelled is in a task"
        return self._job.run(iterator, _partition_id(), _micro_batch())

    @without_traceback(*USER_ERRORS)
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
    """Raises QueryError. Spark commits when every task has written, except with a continuous trigger, whose tasks never have."""
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
