"""Encoding a micro-batch for the output's topics, and choosing who sends it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, NullType, StringType, StructType

from oncelog.client import Client, TopicDescription, TopicPartition
from oncelog.records import Codec
from oncelog.records.arrow_arrays import binary_array
from oncelog.spark import plan
from oncelog.spark.delivery import CollectedBatches, Delivery, DriverPump, EncodedRows, PumpedRows, collected
from oncelog.spark.encoding import RowEncoder, RowError, Targets
from oncelog.spark.key_partitions import key_partitions
from oncelog.spark.plan import Expectation, Mode, Volume
from oncelog.spark.shared_producer import SharedProducerDelivery
from oncelog.spark.sink_settings import SinkSettings
from oncelog.spark.tally import summed
from oncelog.wire import ErrorCode

BYTES = (BinaryType, StringType)
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": (*BYTES, NullType),
    "value": (*BYTES, NullType),
    "headers": (ArrayType, NullType),
    "topic": (StringType,),
    "partition": (IntegerType,),
}
"""The columns of Spark's Kafka sink and their types. Others are not written."""


def columns_to_write(schema: StructType, topic: str | None) -> list[str]:
    """The columns of the DataFrame that go to the log. Raises RowError for those that are missing or of a wrong type."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, allowed in COLUMNS.items():
        if name in kinds and not isinstance(kinds[name], allowed):
            names = " or ".join(kind.typeName() for kind in allowed if kind is not NullType)
            raise RowError(f"column {name} is of type {kinds[name].simpleString()}, not {names}")
    if "value" not in kinds:
        raise RowError("the DataFrame has no column `value`, of type string or binary")
    if topic is None and "topic" not in kinds:
        raise RowError("no topic: give the sink topic=..., or the DataFrame a column `topic`")
    return [name for name in COLUMNS if name in kinds and not (name == "topic" and topic is not None)]


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The partitions that can be written, and who leads them."""

    targets: Targets
    leaders: dict[TopicPartition, int]


def output_topics(client: Client, topic: str | None) -> OutputTopics:
    """Ask for the partitions as they are now: there may be more than there were. Raises RowError."""
    described = client.metadata(None if topic is None else [topic])
    if topic is not None and described[topic].error is not ErrorCode.none:
        raise RowError(f"topic {topic!r} cannot be written: {described[topic].error.name}")
    return _output_topics(described.values())


def _output_topics(topics: Iterable[TopicDescription]) -> OutputTopics:
    leaders = {
        TopicPartition(topic.name, item.partition): item.leader
        for topic in topics
        if topic.error is ErrorCode.none and not topic.is_internal
        for item in topic.partitions
    }
    return OutputTopics(Targets(tuple(sorted(leaders))), leaders)


class EncodedOutput(NamedTuple):
    """A micro-batch that is ready to be sent, and the partitions that its targets count along."""

    delivery: Delivery
    partitions: tuple[TopicPartition, ...]


class Output:
    """Makes deliveries of micro-batches."""

    def __init__(self, settings: SinkSettings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._pump = DriverPump()
        self._columns: list[str] | None = None
        self._are_all = False
        self._before: Volume | None = None
        self._is_ready_to_encode = False

    def close(self) -> None:
        self._pump.close()

    def encode(self, rows: DataFrame, rotation: int, expected: Expectation) -> EncodedOutput:
        """Run the plan of a micro-batch and encode its rows, all of them. Raises RowError, or what Spark raises."""
        encoded = self._encode(rows, rotation, expected)
        written = summed(encoded.delivery.counts)
        self._before = Volume(expected.input_offsets, written.records, written.size_bytes)
        return encoded

    def _encode(self, rows: DataFrame, rotation: int, expected: Expectation) -> EncodedOutput:
        wanted = self._wanted(rows)
        topics = output_topics(self._client, self._settings.topic)
        encoder = RowEncoder(
            topic=self._settings.topic,
            targets=topics.targets,
            codec=self._settings.codec,
            batch_bytes_max=self._settings.batch_bytes_max,
            rotation=rotation,
        )
        partitions = topics.targets.partitions
        context = rows.sparkSession.sparkContext
        direct_bytes_max = plan.direct_bytes_max(context.master, is_compressed=self._settings.codec is not Codec.NONE)
        if plan.is_direct(self._settings.mode, expected, self._before, direct_bytes_max):
            return EncodedOutput(self._collected(wanted, encoder), partitions)
        self._get_ready_to_encode()
        facts = plan.spark_facts(context)
        plan.check_mode(self._settings.mode, facts)
        encoded = EncodedRows(wanted, encoder)
        sizes = {target: count.size_bytes for target, count in encoded.counts.items()}
        if plan.sender(self._settings.mode, facts, sum(sizes.values())) is Mode.DRIVER_PUMP or not sizes:
            return EncodedOutput(PumpedRows(encoded, partitions, self._pump), partitions)
        lanes = plan.lanes(sizes, topics.leaders, partitions, facts.slots)
        return EncodedOutput(SharedProducerDelivery(encoded, partitions, lanes), partitions)

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
        batches = [batch for group in encoder.encode(table.to_batches(), 0) for batch in group]
        return collected(batches, encoder.targets.partitions, self._pump)


def load_kernels() -> None:
    """Import and compile what encodes rows, which takes the better part of a second."""
    importlib.import_module("oncelog.records.arrow")
    key_partitions(binary_array([b"any"]), 1)
