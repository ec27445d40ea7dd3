"""Encoding a micro-batch for the output's topics, and choosing who sends it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from oncelog.client import Client, TopicPartition
from oncelog.records import Codec
from oncelog.records.arrow_arrays import binary_array
from oncelog.spark import plan
from oncelog.spark.plan import Expectation, Mode, Volume
from oncelog.spark.sink.columns import columns_to_write
from oncelog.spark.sink.delivery import BatchDelivery, CollectedBatches, DriverPump, EncodedRows, PumpedRows, collected
from oncelog.spark.sink.encoding import RowEncoder
from oncelog.spark.sink.key_partitions import key_partitions
from oncelog.spark.sink.output_topics import TopicLimits, output_topics, row_encoder
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.shared_producer import SharedProducerDelivery
from oncelog.spark.sink.tally import summed


class EncodedOutput(NamedTuple):
    """A micro-batch that is ready to be sent, and the partitions that its targets count along."""

    delivery: BatchDelivery
    partitions: tuple[TopicPartition, ...]


class Output:
    """Makes deliveries of micro-batches."""

    def __init__(self, settings: SinkSettings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._limits = TopicLimits(client)
        self._pump = DriverPump()
        self._columns: list[str] | None = None
        self._are_all = False
        self._before: Volume | None = None
        self._is_ready_to_encode = False

    def close(self) -> None:
        self._pump.close()

    def encode(
        self, rows: DataFrame, rotation: int, expected: Expectation, others: Collection[str] = ()
    ) -> EncodedOutput:
        """Run the plan of a micro-batch and encode its rows, all of them. Raises RowError, or what Spark raises.

        The client hears of the leaders of the output's topics then, and of `others`.
        """
        encoded = self._encode(rows, rotation, expected, others)
        written = summed(encoded.delivery.counts)
        self._before = Volume(expected.input_offsets, written.records, written.size_bytes)
        return encoded

    def _encode(self, rows: DataFrame, rotation: int, expected: Expectation, others: Collection[str]) -> EncodedOutput:
        wanted = self._wanted(rows)
        topics = output_topics(self._client, self._limits, self._settings, self._columns or (), others)
        encoder = row_encoder(self._settings, topics, rotation)
        partitions = topics.targets.partitions
        context = rows.sparkSession.sparkContext
        direct_bytes_max = plan.direct_bytes_max(context.master, is_compressed=self._settings.codec is not Codec.NONE)
        if plan.is_direct(self._settings.mode, expected, self._before, direct_bytes_max):
            return EncodedOutput(self._collected(wanted, encoder), partitions)
        self._get_ready_to_encode()
        plan.check_mode(self._settings.mode, plan.spark_facts(context))
        encoded = EncodedRows(wanted, encoder)
        # Executors come and go, most of all while the first micro-batch is computed.
        facts = plan.spark_facts(context)
        sizes = {target: count.size_bytes for target, count in encoded.counts.items()}

        def slots() -> int:
            return plan.spark_facts(context).slots

        if plan.sender(self._settings.mode, facts, sum(sizes.values())) is Mode.DRIVER_PUMP or not sizes:
            return EncodedOutput(PumpedRows(encoded, partitions, self._pump, slots), partitions)

        def lanes(tasks_max: int) -> dict[int, int]:
            return plan.lanes(sizes, topics.leaders, partitions, tasks_max)

        return EncodedOutput(SharedProducerDelivery(encoded, partitions, lanes, slots), partitions)

    def _get_ready_to_encode(self) -> None:
        """Load what encodes rows while tasks do that for this micro-batch: the next one may be the driver's to encode."""
        if self._settings.mode is not Mode.SHARED_PRODUCER and not self._is_ready_to_encode:
            self._is_ready_to_encode = True
            threading.Thread(target=load_kernels, name="oncelog-load-kernels").start()

    def _wanted(self, rows: DataFrame) -> DataFrame:
        """The columns that are written. They are the same in every micro-batch; to select them takes Spark a while."""
        if self._columns is None:
            schema = rows.schema
            self._columns = columns_to_write(schema, self._settings.topic)
            self._are_all = schema.names == self._columns
        return rows if self._are_all else rows.select(*self._columns)

    def _collected(self, rows: DataFrame, encoder: RowEncoder) -> CollectedBatches:
        table: Any = rows.toArrow()
        groups = list(encoder.encode(table.to_batches(), 0))
        batches = [batch for group in groups for batch in group.batches]
        unwritable = sum(group.unwritable for group in groups)
        return collected(batches, encoder.targets.partitions, self._pump, unwritable)


def load_kernels() -> None:
    """Import and compile what encodes rows, which takes the better part of a second."""
    importlib.import_module("oncelog.records.from_arrow")
    key_partitions(binary_array([b"any"]), 1)
