"""Tasks of one barrier stage that write with the driver's producer id and epoch, each to partitions of its own.

A partition is written by one task, because sequences are counted per partition. No task may run twice under one epoch:
Kafka cannot take back part of a transaction. In a barrier stage a failed task fails the job instead of being tried again,
and none is run speculatively.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from oncelog.client import TopicPartition
from oncelog.records.arrow_arrays import integer_array
from oncelog.spark.delivery import SPARK_ERRORS, DeliveryFailed, EncodedRows, Producing, open_sender, send_all
from oncelog.spark.encoding import EncodedBatch
from oncelog.spark.plan import Mode
from oncelog.spark.python_worker import settled
from oncelog.spark.tally import Count, Tally, tally

ROW_CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum.enabled"

SENT_SCHEMA = "target int, records long, batches long, size long, checksum long"

_SENT = pa.schema(
    [
        ("target", pa.int32()),
        ("records", pa.int64()),
        ("batches", pa.int64()),
        ("size", pa.int64()),
        ("checksum", pa.int64()),
    ]
)


class SharedProducerDelivery:
    """Encoded rows, exchanged so that each target's batches meet in one task, in order, and sent from there."""

    def __init__(self, encoded: EncodedRows, partitions: tuple[TopicPartition, ...], lanes: Mapping[int, int]) -> None:
        self._encoded = encoded
        self._partitions = partitions
        self._lanes = lanes

    @property
    def mode(self) -> Mode:
        return Mode.SHARED_PRODUCER

    @property
    def counts(self) -> Tally:
        return self._encoded.counts

    def send(self, producing: Producing) -> Tally:
        width = len(set(self._lanes.values()))
        lane_of_target = functions.lit([self._lanes.get(target, 0) for target in range(len(self._partitions))])
        exchanged = (
            self._encoded.rows.repartitionById(
                width, functions.element_at(lane_of_target, functions.col("target") + functions.lit(1))
            )
            .sortWithinPartitions("target", "source", "position")
            .select("target", "records", "crc", "batch")
        )
        task = _SendTask(producing, self._partitions)
        try:
            with _without_row_checksums(exchanged.sparkSession):
                sent = exchanged.mapInArrow(task, SENT_SCHEMA, barrier=True).collect()
        except SPARK_ERRORS as error:
            raise DeliveryFailed(f"a sending task failed: {error}") from error
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


class _SendTask:
    """What one task of the barrier stage does: send its targets' batches, return when all are acknowledged."""

    def __init__(self, producing: Producing, partitions: tuple[TopicPartition, ...]) -> None:
        self._producing = producing
        self._partitions = partitions

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        return settled(self._sent(rows), "send")

    def _sent(self, rows: Iterator[Any]) -> Iterator[Any]:
        with open_sender(self._producing) as sender:
            sent = send_all(sender, _batches(rows), self._partitions)
        targets = list(sent)
        yield pa.RecordBatch.from_arrays(
            [
                integer_array(targets, pa.int32()),
                integer_array([sent[target].records for target in targets], pa.int64()),
                integer_array([sent[target].batches for target in targets], pa.int64()),
                integer_array([sent[target].size_bytes for target in targets], pa.int64()),
                integer_array([sent[target].checksum for target in targets], pa.int64()),
            ],
            schema=_SENT,
        )


def _batches(rows: Iterator[pa.RecordBatch]) -> Iterator[EncodedBatch]:
    for table in rows:
        targets, records, crcs = (table.column(name).to_pylist() for name in ("target", "records", "crc"))
        data = table.column("batch")
        for at in range(table.num_rows):
            yield EncodedBatch(targets[at], records[at], crcs[at], memoryview(data[at].as_buffer()))
