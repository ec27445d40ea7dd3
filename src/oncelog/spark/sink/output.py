"""The output's topics, encoding a micro-batch for them, and choosing who sends it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from oncelog.client import BrokerRefused, Client, TopicDescription, TopicPartition, UnsupportedVersion
from oncelog.client.net.rights import topic_error
from oncelog.records import Codec
from oncelog.records.arrow_arrays import binary_array
from oncelog.spark import plan
from oncelog.spark.plan import Expectation, Mode, Volume
from oncelog.spark.sink.delivery import (
    BatchDelivery,
    CollectedBatches,
    DriverSender,
    EncodedRows,
    RowsSentByDriver,
    summed,
)
from oncelog.spark.sink.encoding import RowEncoder, Targets
from oncelog.spark.sink.key_partitions import key_partitions
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.shared_producer import SharedProducerDelivery
from oncelog.spark.sink.writable import Limits, RowError, columns_to_write
from oncelog.wire import ErrorCode

BATCH_LIMIT = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The partitions that can be written, their leaders, and the limits of their topics."""

    targets: Targets
    leaders: dict[TopicPartition, int]
    batch_bytes_max: Mapping[str, int]
    refused: frozenset[str]


class TopicLimits:
    """The largest batch of each topic, and the topics that this user may not write.

    Asked once for each topic: after a later change the broker refuses.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, int | None] = {}
        self._refused: frozenset[str] = frozenset()

    def learn(self, topics: Iterable[str]) -> None:
        """Ask about those of the topics that are new."""
        new = sorted(set(topics) - self._known.keys())
        if new:
            with suppress(UnsupportedVersion):
                self._refused |= self._client.unwritable_topics(new)
            self._ask(new)

    @property
    def batch_bytes_max(self) -> dict[str, int]:
        """The limits of topics whose settings this user may see."""
        return {topic: limit for topic, limit in self._known.items() if limit is not None}

    @property
    def refused(self) -> frozenset[str]:
        return self._refused

    def _ask(self, topics: list[str]) -> None:
        try:
            described = self._client.describe_configs(topics=topics)
        except BrokerRefused:
            # One refusal hides the answers for all the others.
            if len(topics) == 1:
                self._known[topics[0]] = None
                return
            for topic in topics:
                self._ask([topic])
            return
        for topic, entries in described.items():
            value = next((entry.value for entry in entries if entry.name == BATCH_LIMIT), None)
            self._known[topic] = None if value is None else int(value)


def output_topics(
    client: Client, limits: TopicLimits, settings: SinkSettings, columns: Collection[str], others: Collection[str] = ()
) -> OutputTopics:
    """Ask for the partitions as they are now: there may be more than there were. Raises RowError.

    `columns` are those of the rows. Rows of an unknown topic or partition are unwritable, and one node may not know it yet: where
    a column names it, every node is asked. The client learns the leaders of `others`, too.
    """
    named = [topic for topic in (settings.topic, settings.dead_letter_topic) if topic is not None]
    if settings.topic is None:
        described = client.topics_of_every_node()
    else:
        asked = [*named, *others]
        described = client.topics_of_every_node(asked) if "partition" in columns else client.metadata(asked)
    for topic in named:
        error = described[topic].error if topic in described else ErrorCode.unknown_topic_or_partition
        if error is ErrorCode.unknown_topic_or_partition:
            raise RowError(
                f"there is no topic {topic!r} at {settings.bootstrap_servers}: make it first, as with oncelog topics create {topic}"
            )
        if error is not ErrorCode.none:
            raise RowError(f"topic {topic!r} cannot be written: {topic_error(topic, error)}")
    leaders = _leaders(described.values())
    limits.learn(partition.topic for partition in leaders)
    return OutputTopics(Targets(tuple(sorted(leaders))), leaders, limits.batch_bytes_max, limits.refused)


def row_encoder(settings: SinkSettings, topics: OutputTopics, rotation: int) -> RowEncoder:
    """The encoder of rows for these topics."""
    return RowEncoder(
        topic=settings.topic,
        targets=topics.targets,
        codec=settings.codec,
        batch_bytes_max=settings.batch_bytes_max,
        rotation=rotation,
        limits=Limits(topics.batch_bytes_max, topics.refused, settings.request_bytes_max),
        policy=settings.unwritable,
        dead_letter_topic=settings.dead_letter_topic,
    )


def _leaders(topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, item.partition): item.leader
        for topic in topics
        if topic.error is ErrorCode.none and not topic.is_internal
        for item in topic.partitions
    }


class Output:
    """Makes deliveries of micro-batches."""

    def __init__(self, settings: SinkSettings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._limits = TopicLimits(client)
        self._driver = DriverSender()
        self._columns: list[str] | None = None
        self._are_all = False
        self._before: Volume | None = None
        self._is_ready_to_encode = False

    def close(self) -> None:
        self._driver.close()

    def encode(
        self, rows: DataFrame, rotation: int, expected: Expectation, others: Collection[str] = ()
    ) -> BatchDelivery:
        """Run the plan of a micro-batch and encode its rows, all of them. Raises RowError, or what Spark raises.

        The client learns the leaders of the output's topics, and of `others`.
        """
        encoded = self._encode(rows, rotation, expected, others)
        written = summed(encoded.counts)
        self._before = Volume(expected.input_offsets, written.records, written.size_bytes)
        return encoded

    def _encode(self, rows: DataFrame, rotation: int, expected: Expectation, others: Collection[str]) -> BatchDelivery:
        wanted = self._wanted(rows)
        topics = output_topics(self._client, self._limits, self._settings, self._columns or (), others)
        encoder = row_encoder(self._settings, topics, rotation)
        partitions = topics.targets.partitions
        context = rows.sparkSession.sparkContext
        direct_bytes_max = plan.direct_bytes_max(context.master, is_compressed=self._settings.codec is not Codec.NONE)
        if plan.is_direct(self._settings.mode, expected, self._before, direct_bytes_max):
            return self._collected(wanted, encoder)
        self._get_ready_to_encode()
        plan.check_mode(self._settings.mode, plan.spark_facts(context))
        encoded = EncodedRows(wanted, encoder)
        # Executors come and go, above all while the first micro-batch is computed.
        facts = plan.spark_facts(context)
        sizes = {target: count.size_bytes for target, count in encoded.counts.items()}

        def slots() -> int:
            return plan.spark_facts(context).slots

        if plan.sender(self._settings.mode, facts, sum(sizes.values())) is Mode.DRIVER_PUMP or not sizes:
            return RowsSentByDriver(encoded, partitions, slots, self._driver)

        def sender_tasks(tasks_max: int) -> dict[int, int]:
            return plan.sender_tasks(sizes, topics.leaders, partitions, tasks_max)

        return SharedProducerDelivery(encoded, partitions, slots, sender_tasks)

    def _get_ready_to_encode(self) -> None:
        """Load the kernels while tasks encode this micro-batch: the driver may encode the next one."""
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
        return CollectedBatches(batches, encoder.targets.partitions, self._driver, unwritable)


def load_kernels() -> None:
    """Import and compile the kernels that encode rows, which takes the better part of a second."""
    importlib.import_module("oncelog.records.arrow")
    key_partitions(binary_array([b"any"]), 1)
