"""Writing a batch DataFrame in one transaction.

A write with a write id leaves a record in its transaction, by which a repetition is known. It is metadata of a committed offset, as
the fence record of a micro-batch is, but in a group of its own for each write id: it is found however many writes came after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from oncelog.client import ProducerIdentity
from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.records import BATCH_BYTES_MAX
from oncelog.spark.causes import without_stack_traces
from oncelog.spark.metrics import BatchReport
from oncelog.spark.options.sink_options import Use, with_options
from oncelog.spark.plan import Expectation
from oncelog.spark.private import has_own_jvm
from oncelog.spark.query import QueryError
from oncelog.spark.sink.settings import SinkSettings, sink_settings
from oncelog.spark.sink.writable import columns_to_write
from oncelog.spark.sink.writer import Writer, open_client, skipped_report

RECORD = "oncelog write"
RECORD_VERSION = 1
WRITE_ID_CHARACTERS_MAX = 200


class WriteIdError(Exception):
    """The group of a write id holds something other than that write."""


@dataclass(frozen=True, slots=True)
class WriteNames:
    """The names of a batch write. `write_id` is None where a repetition need not be known."""

    transactional_id: str
    group_id: str
    write_id: str | None


def write_names(transactional_id: str | None, write_id: str | None) -> WriteNames:
    """The transactional id and group of a write. Raises ValueError.

    Two runs of one write have to fence each other, so without a transactional id the write id gives it. A write that has
    neither gets one that nobody else has.
    """
    if write_id is not None and not 0 < len(write_id) <= WRITE_ID_CHARACTERS_MAX:
        raise ValueError(f"write_id has 1 to {WRITE_ID_CHARACTERS_MAX} characters, not {len(write_id)}")
    if transactional_id is not None and not transactional_id:
        raise ValueError("transactional_id is a name, or None for one that is made up")
    if transactional_id is None:
        made_up = f"oncelog-write-{uuid4().hex if write_id is None else write_id}"
        return WriteNames(made_up, made_up, write_id)
    return WriteNames(transactional_id, f"{transactional_id}-{write_id or 'write'}", write_id)


def was_written(committed: Mapping[TopicPartition, OffsetAndMetadata], write_id: str, topic: str | None) -> bool:
    """True if a write's group has its record. `topic` is None where a column names it.

    Raises WriteIdError when the group is somebody else's, or the write was one to another topic.
    """
    for partition, entry in committed.items():
        if _read(entry.metadata) != write_id:
            raise WriteIdError(
                f"the group of write_id {write_id!r} has committed offsets of {partition} that are not of this write; "
                "choose another write_id or transactional_id"
            )
        if topic is not None and topic != partition.topic:
            raise WriteIdError(
                f"write_id {write_id!r} was written to topic {partition.topic!r}, so this write to {topic!r} is another one; "
                "choose another write_id"
            )
        return True
    return False


def record_partitions(topic: str | None) -> list[TopicPartition]:
    """The partitions for the record of a write, as far as they are known before its rows are computed."""
    return [] if topic is None else [TopicPartition(topic, 0)]


def write_entries(
    write_id: str | None, topic: str | None, written: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit with a write. They belong to the topic that was named, or else to one that was written."""
    named = topic or min((partition.topic for partition in written), default=None)
    if write_id is None or named is None:
        return {}
    metadata = json.dumps({RECORD: RECORD_VERSION, "id": write_id}, separators=(",", ":"))
    return {TopicPartition(named, 0): OffsetAndMetadata(0, metadata)}


def _read(metadata: str) -> str | None:
    try:
        fields = json.loads(metadata)
        return str(fields["id"]) if fields[RECORD] == RECORD_VERSION else None
    except (ValueError, KeyError, TypeError):
        return None


TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms, the longest that a broker allows."""

NO_IDENTITY = ProducerIdentity(-1, -1)
"""The identity in the report of a write that was found without taking its transactional id."""

UNFORESEEN = Expectation(None, is_proportional=False)


def write_exactly_once(
    rows: DataFrame,
    *,
    topic: str | None = None,
    bootstrap_servers: str | None = None,
    transactional_id: str | None = None,
    write_id: str | None = None,
    mode: str = "auto",
    attempts: int = 3,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    call_timeout_ms: int = 60_000,
    compression: str = "none",
    batch_bytes_max: int = BATCH_BYTES_MAX,
    client_id: str = "oncelog-spark",
    unwritable: str = "fail",
    dead_letter_topic: str | None = None,
    options: Mapping[str, str] | None = None,
) -> BatchReport:
    """Write a batch DataFrame in one transaction: all of it, or nothing.

    The columns and the other arguments are those of `exactly_once`. The rows are computed and encoded before the
    transaction begins. The driver sees one small row for each record batch, never the records.

    transactional_id        who writes. Without one, the write id gives it; without either, one is made up
    write_id                what is written, such as "orders-2024-05": once it is committed, a repetition with the same
                            transactional id writes nothing. The log knows it for offsets.retention.minutes, 7 days by
                            default. A DataFrame without rows is not remembered where a column names the topic
    transaction_timeout_ms  how long it may take to send all of it. When the driver dies meanwhile, read_committed readers
                            of these topics wait until then for what comes after, or until the same transactional id
                            writes again

    Raises ValueError for settings that mean nothing, QueryError for a DataFrame that is not a batch or not of this
    process, RowError for rows that cannot be written, WriteIdError for a write id that is somebody else's, or was written
    to another topic; ProducerFenced, OutcomeUnknown or AttemptsExhausted where the transaction did not go through; JavaError
    where Spark failed.
    """
    arguments = {name: value for name, value in locals().items() if name not in ("rows", "write_id", "options")}
    told = with_options(write_exactly_once, arguments, options, Use.WRITE_EXACTLY_ONCE)
    settings = write_settings(told, write_id)
    _refuse(rows)
    columns_to_write(rows.schema, settings.topic)
    try:
        return _write(rows, settings, write_id)
    except Exception as error:
        short = without_stack_traces(error)
        if short is error:
            raise
        raise short from None


def write_settings(arguments: Mapping[str, Any], write_id: str | None) -> SinkSettings:
    """The settings of a batch write, with the names that belong to its write id. Raises ValueError."""
    names = write_names(arguments.get("transactional_id"), write_id)
    known = {"topic": None, "bootstrap_servers": None, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **arguments}
    return sink_settings(**{**known, "transactional_id": names.transactional_id, "group_id": names.group_id})


def _write(rows: DataFrame, settings: SinkSettings, write_id: str | None) -> BatchReport:
    started_ms = time.monotonic() * 1000
    if write_id is not None and is_written(settings, write_id):
        # It stays written: there is no need to fence the producer that has the id now.
        return skipped_report(0, time.monotonic() * 1000 - started_ms, NO_IDENTITY)
    writer = Writer(settings)
    try:
        # The producer before may have committed before it was fenced, and cannot any more.
        if write_id is not None and was_written(
            writer.committed(record_partitions(settings.topic)), write_id, settings.topic
        ):
            return skipped_report(0, time.monotonic() * 1000 - started_ms, writer.identity)
        report = writer.write(
            rows, 0, UNFORESEEN, lambda written: write_entries(write_id, settings.topic, written), lambda: True
        )
    finally:
        writer.close()
    return replace(report, total_ms=time.monotonic() * 1000 - started_ms)


def is_written(settings: SinkSettings, write_id: str) -> bool:
    """True if a write is seen as committed without taking its transactional id. Raises WriteIdError.

    An attempt that died may have left its transaction open until the id is taken, so this does not wait for stable offsets.
    """
    with open_client(settings) as client:
        return was_written(client.committed_offsets(settings.group_id, require_stable=False), write_id, settings.topic)


def _refuse(rows: DataFrame) -> None:
    if not has_own_jvm(rows.sparkSession):
        raise QueryError(
            "write_exactly_once works in the driver's own process, and this DataFrame is over Spark Connect: use "
            'df.write.format("oncelog")'
        )
    if rows.isStreaming:
        raise QueryError("this is a streaming DataFrame: use writeStream.foreachBatch(exactly_once(...))")
