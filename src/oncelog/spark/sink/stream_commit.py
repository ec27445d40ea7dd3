"""Committing a micro-batch of writeStream.format("oncelog") in a process that sees neither query nor Spark.

Which query it is and what the micro-batch reads is in the checkpoint, in the same files as for foreachBatch. So is the fence
record: a query may go from one to the other with its checkpoint, its transactional id and its group.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.client import Client, TopicPartition
from oncelog.client.descriptions import TopicDescription
from oncelog.spark.batch_input import CARRIER_PARTITION, BatchInput, InputClusters, batch_input
from oncelog.spark.checkpoint import BatchOffsets, CheckpointError, CheckpointFiles, LocalFiles, batch_offsets
from oncelog.spark.metrics import BatchReport
from oncelog.spark.offsets import from_json, is_offsets, topic_ids
from oncelog.spark.options.table import OptionError
from oncelog.spark.options.values import LOCAL, scheme_and_path
from oncelog.spark.query import QueryError
from oncelog.spark.sink import fence
from oncelog.spark.sink.delivery import DriverPump
from oncelog.spark.sink.encoded_task import EncodedTask, StagedDelivery
from oncelog.spark.sink.fence import FenceRecord, Verdict
from oncelog.spark.sink.settings import QUERY_PLACEHOLDER, SinkSettings, sink_settings
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
    """Check what is known before the query is. Raises OptionError or ValueError."""
    rest = dict(arguments)
    query_name = rest.pop("query_name", None)
    checkpoint = _local_path(rest.pop("checkpoint_location", None))
    staging_location = rest.pop("staging_location", None)
    settings = StreamSettings(_named_by_query(rest, query_name), checkpoint, staging_location, query_name)
    settings.sink("any")
    return settings


def _named_by_query(arguments: dict[str, Any], query_name: str | None) -> dict[str, Any]:
    """The arguments with the query's name where they ask for it. The flows of one sink are queries that differ in it alone."""
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
    """Write a micro-batch whose tasks have encoded it, or leave it if the log has it already.

    Raises CheckpointError, QueryError or FenceError where exactly once cannot be had, RowError for rows that cannot be
    written, StagingError where encoded rows are gone, and what `Transactions.commit` raises.
    """
    started_ms = time.monotonic() * 1000
    files = LocalFiles(settings.checkpoint)
    query_id = _query_id(files, settings.checkpoint)
    _check_tasks(tasks, query_id, batch_id, settings.checkpoint)
    sink = settings.sink(query_id)
    pump = DriverPump()
    delivery = StagedDelivery(tasks, pump)
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
        report = writer.send(delivery, delivery.partitions, batch_id, entries, lambda: True, started_ms)
        writer.keep(record, entries)
        return report
    finally:
        pump.close()
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
    """What the tasks know from Spark has to be what the checkpoint says, or it is the checkpoint of another query."""
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
    return batch_input(InputClusters(len(told), own, {}), offsets, []).where_it_is(client)


def own_sources(told: Sequence[str], described: Mapping[str, TopicDescription]) -> frozenset[int]:
    """The sources that are of the output's cluster: it has all of their partitions.

    Where it lacks some that were deleted, those are that have one of its topics by its id. `told` has the offsets of each as JSON.
    """
    known = {TopicPartition(name, item.partition) for name, topic in described.items() for item in topic.partitions}
    ids = {topic.topic_id for topic in described.values() if topic.topic_id is not None}
    lines = [from_json(line) for line in told]
    return frozenset(
        place
        for place, (text, line) in enumerate(zip(told, lines, strict=True))
        if line and (line.keys() <= known or not ids.isdisjoint(topic_ids(json.loads(text)).values()))
    )
