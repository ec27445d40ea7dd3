"""Tasks of one barrier stage that write with the driver's producer id and epoch, each to partitions of its own.

A partition is written by one task, because sequences are counted per partition. No task may run twice under one epoch:
Kafka cannot take back part of a transaction. In a barrier stage a failed task fails the job instead of being tried again,
and none is run speculatively.

An exchange brings the batches to the tasks. `DataFrame.repartitionById` does so since PySpark 4.1. Every release puts a row where
the hash of its key says (HashPartitioning: Murmur3 with the seed 42, modulo the number of partitions), so keys are chosen whose
hashes say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions

from oncelog.client import BrokerRefused, TopicPartition
from oncelog.client.errors import broker_refusal
from oncelog.records.arrow_arrays import binary_array, integer_array
from oncelog.spark.plan import Mode
from oncelog.spark.session.python_worker import frozen_after
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink.delivery import (
    SPARK_ERRORS,
    BatchDeliveryFailed,
    Count,
    EncodedRows,
    KeptDelivery,
    Producing,
    Tally,
    open_sender,
    send_all,
    tally,
)
from oncelog.spark.sink.encoding import arrow_schema, batches_in
from oncelog.wire import ErrorCode

ROW_CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum.enabled"

SENT_SCHEMA = (
    "target int, records long, batches long, size long, checksum long, error int, message binary, missing binary"
)
"""One row per target, or, where a broker refuses for good, one row with its error. A task that raised would be a failure
like any other, after which everything is sent again."""

NO_TARGET = -1

_SENT = arrow_schema(SENT_SCHEMA)


class SharedProducerDelivery(KeptDelivery):
    """Encoded rows, exchanged so that each target's batches meet in one task, in order, and sent from there."""

    mode = Mode.SHARED_PRODUCER

    def __init__(
        self,
        encoded: EncodedRows,
        partitions: tuple[TopicPartition, ...],
        slots: Callable[[], int],
        sender_tasks: Callable[[int], Mapping[int, int]],
    ) -> None:
        """`sender_tasks` returns the sender task of each target, for as many tasks as fit at once."""
        super().__init__(encoded, partitions, slots)
        self._sender_tasks = sender_tasks

    def send(self, producing: Producing) -> Tally:
        slots = self._slots()
        sender_tasks = self._sender_tasks(slots)
        width = len(set(sender_tasks.values()))
        task_of_target = [sender_tasks.get(target, 0) for target in range(len(self.partitions))]
        batches = (
            exchanged(self._encoded.rows(slots), functions.col("target"), task_of_target, width)
            .sortWithinPartitions("target", "source", "position")
            .select("target", "records", "crc", "batch")
        )
        task = _SendTask(producing, self.partitions)
        try:
            with _without_row_checksums(batches.sparkSession):
                sent = batches.mapInArrow(task, SENT_SCHEMA, barrier=True).collect()
        except SPARK_ERRORS as error:
            raise BatchDeliveryFailed(f"a sending task failed: {error}") from error
        for row in sent:
            if row.error:
                right = bytes(row.missing).decode() or None
                raise broker_refusal(ErrorCode(row.error), bytes(row.message).decode(), right)
        return tally((row.target, Count(row.records, row.batches, row["size"], row.checksum)) for row in sent)


@contextmanager
def _without_row_checksums(session: SparkSession) -> Iterator[None]:
    """Spark sums every byte of an exchange to notice a stage that was computed again with another result. The tally does that."""
    before = session.conf.get(ROW_CHECKSUMS, "true") or "true"
    session.conf.set(ROW_CHECKSUMS, "false")
    try:
        yield
    finally:
        session.conf.set(ROW_CHECKSUMS, before)


class _SendTask(Shipped):
    """The function of the barrier stage's tasks: it sends its targets' batches, and returns when all are acknowledged."""

    def __init__(self, producing: Producing, partitions: tuple[TopicPartition, ...]) -> None:
        self._producing = producing
        self._partitions = partitions

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        return frozen_after(self._sent(rows), "send")

    def _sent(self, rows: Iterator[Any]) -> Iterator[Any]:
        try:
            with open_sender(self._producing) as sender:
                sent = send_all(sender, chain.from_iterable(map(batches_in, rows)), self._partitions)
        except BrokerRefused as refused:
            for _ in rows:
                pass  # Spark counts on a task that returns to have read its rows
            yield _sent_rows({NO_TARGET: Count()}, refused)
        else:
            yield _sent_rows(sent)


def _sent_rows(sent: Tally, refused: BrokerRefused | None = None) -> pa.RecordBatch:
    counts = list(sent.values())
    error, message, right = (0, "", "") if refused is None else (refused.error, refused.message, refused.right or "")
    return pa.RecordBatch.from_arrays(
        [
            integer_array(list(sent), pa.int32()),
            integer_array([count.records for count in counts], pa.int64()),
            integer_array([count.batches for count in counts], pa.int64()),
            integer_array([count.size_bytes for count in counts], pa.int64()),
            integer_array([count.checksum for count in counts], pa.int64()),
            integer_array([error] * len(counts), pa.int32()),
            binary_array([message.encode()] * len(counts)),
            binary_array([right.encode()] * len(counts)),
        ],
        schema=_SENT,
    )


MASK = 0xFFFFFFFF
SEED = 42
INTEGER_BYTES = 4
KEY_COLUMN = "oncelog partition key"


def exchanged(rows: DataFrame, place: Column, partition_of_place: Sequence[int], width: int) -> DataFrame:
    """Rows in `width` partitions: each in the one that `partition_of_place` has for its place, a number from 0."""
    keys = partition_keys(width)
    key_of_place = functions.lit([keys[partition] for partition in partition_of_place])
    key = functions.element_at(key_of_place, place + functions.lit(1))
    # A column of its own: Spark leaves out a coalesce that an exchange follows directly.
    return rows.withColumn(KEY_COLUMN, key).repartition(width, KEY_COLUMN).drop(KEY_COLUMN)


def partition_keys(width: int) -> list[int]:
    """For each of `width` partitions an integer that Spark puts there."""
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(spark_hash(key) % width, key)
        if len(found) == width:
            return [found[partition] for partition in range(width)]
    raise AssertionError("every partition is some key's")


def spark_hash(key: int) -> int:
    """Spark's function `hash` of an integer that is not negative."""
    word = _rotated(key * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    hashed = (_rotated(SEED ^ word, 13) * 5 + 0xE6546B64) & MASK
    hashed ^= INTEGER_BYTES
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    hashed ^= hashed >> 16
    return hashed - (MASK + 1) if hashed > MASK >> 1 else hashed


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK
