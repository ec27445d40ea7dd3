"""Tasks of one barrier stage that write with the driver's producer id and epoch, each to partitions of its own.

A partition is written by one task, because sequences are counted per partition. No task may run twice under one epoch:
Kafka cannot take back part of a transaction. In a barrier stage a failed task fails the job instead of being tried again,
and none is run speculatively.
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
from oncelog.spark.session.python_worker import settled
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink.delivery import (
    SPARK_ERRORS,
    BatchDeliveryFailed,
    Count,
    EncodedRows,
    Producing,
    Tally,
    open_sender,
    send_all,
    tally,
)
from oncelog.spark.sink.encoding import batches_in
from oncelog.wire import ErrorCode

ROW_CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum.enabled"

SENT_SCHEMA = (
    "target int, records long, batches long, size long, checksum long, error int, message binary, missing binary"
)
"""One row per target, or, where a broker refuses for good, one row with its error. A task that raised would be a failure
like any other, after which everything is sent again."""

NO_TARGET = -1

_SENT = pa.schema(
    [
        ("target", pa.int32()),
        ("records", pa.int64()),
        ("batches", pa.int64()),
        ("size", pa.int64()),
        ("checksum", pa.int64()),
        ("error", pa.int32()),
        ("message", pa.binary()),
        ("missing", pa.binary()),
    ]
)


class SharedProducerDelivery:
    """Encoded rows, exchanged so that each target's batches meet in one task, in order, and sent from there."""

    def __init__(
        self,
        encoded: EncodedRows,
        partitions: tuple[TopicPartition, ...],
        lanes: Callable[[int], Mapping[int, int]],
        slots: Callable[[], int],
    ) -> None:
        """`lanes` says which task each target goes to, where so many fit at once.

        `slots` says how many do. It is asked each time: after a loss they may be fewer.
        """
        self._encoded = encoded
        self._partitions = partitions
        self._lanes = lanes
        self._slots = slots

    @property
    def mode(self) -> Mode:
        return Mode.SHARED_PRODUCER

    @property
    def counts(self) -> Tally:
        return self._encoded.counts

    @property
    def unwritable(self) -> int:
        return self._encoded.unwritable

    def send(self, producing: Producing) -> Tally:
        slots = self._slots()
        lanes = self._lanes(slots)
        width = len(set(lanes.values()))
        lane_of_target = [lanes.get(target, 0) for target in range(len(self._partitions))]
        batches = (
            exchanged(self._encoded.rows(slots), functions.col("target"), lane_of_target, width)
            .sortWithinPartitions("target", "source", "position")
            .select("target", "records", "crc", "batch")
        )
        task = _SendTask(producing, self._partitions)
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

    def close(self) -> None:
        self._encoded.close()


@contextmanager
def _without_row_checksums(session: SparkSession) -> Iterator[None]:
    """Spark sums every byte of an exchange to notice a stage that was computed again, and otherwise. The tally does that."""
    before = session.conf.get(ROW_CHECKSUMS, "true") or "true"
    session.conf.set(ROW_CHECKSUMS, "false")
    try:
        yield
    finally:
        session.conf.set(ROW_CHECKSUMS, before)


class _SendTask(Shipped):
    """What one task of the barrier stage does: send its targets' batches, return when all are acknowledged."""

    def __init__(self, producing: Producing, partitions: tuple[TopicPartition, ...]) -> None:
        self._producing = producing
        self._partitions = partitions

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        return settled(self._sent(rows), "send")

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
    """Rows in `width` partitions: each in that which `partition_of_place` has for its place, a number from 0."""
    keys = partition_keys(width)
    key_of_place = functions.lit([keys[partition] for partition in partition_of_place])
    key = functions.element_at(key_of_place, place + functions.lit(1))
    # As a column of its own: an exchange that follows a coalesce directly makes Spark leave out the coalesce.
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
    """What Spark's function `hash` gives for an integer that is not negative."""
    word = _rotated(key * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    hashed = (_rotated(SEED ^ word, 13) * 5 + 0xE6546B64) & MASK
    hashed ^= INTEGER_BYTES
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    hashed ^= hashed >> 16
    return hashed - (MASK + 1) if hashed > MASK >> 1 else hashed


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK
