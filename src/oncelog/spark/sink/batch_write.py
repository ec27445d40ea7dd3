"""Writing a batch DataFrame: one transaction, whichever number of tasks it has."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from oncelog.client import ProducerIdentity
from oncelog.records import BATCH_BYTES_MAX
from oncelog.spark.java_errors import without_stack_traces
from oncelog.spark.metrics import BatchReport
from oncelog.spark.options.sink_options import Use, with_options
from oncelog.spark.plan import Expectation
from oncelog.spark.private import has_own_jvm
from oncelog.spark.query import QueryError
from oncelog.spark.sink.columns import columns_to_write
from oncelog.spark.sink.settings import SinkSettings, sink_settings
from oncelog.spark.sink.write_record import record_partitions, was_written, write_entries, write_names
from oncelog.spark.sink.writer import Writer, open_client, skipped_report

TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms, the longest that a broker allows."""

NO_IDENTITY = ProducerIdentity(-1, -1)
"""What the report of a write says that was known without taking its transactional id."""

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
    arguments = {
        "topic": topic,
        "bootstrap_servers": bootstrap_servers,
        "transactional_id": transactional_id,
        "mode": mode,
        "attempts": attempts,
        "transaction_timeout_ms": transaction_timeout_ms,
        "call_timeout_ms": call_timeout_ms,
        "compression": compression,
        "batch_bytes_max": batch_bytes_max,
        "client_id": client_id,
        "unwritable": unwritable,
        "dead_letter_topic": dead_letter_topic,
    }
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
        # It stays written: there is no need to take the id from whoever has it now.
        return skipped_report(0, time.monotonic() * 1000 - started_ms, NO_IDENTITY)
    writer = Writer(settings)
    try:
        # Whoever had the id may have committed before it was taken, and cannot any more.
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
    """Whether a write is committed, so far as is known without taking its transactional id. Raises WriteIdError.

    An attempt that died may have left its transaction open, and only to take the id ends it: nothing pending is awaited.
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
