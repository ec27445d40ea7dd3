"""A micro-batch that is encoded and can be sent, as often as it takes, under one producer identity after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from oncelog.client import BatchSender, ProducerIdentity, TopicPartition
from oncelog.client.values import TransactionVersion
from oncelog.spark.encoding import ENCODED_SCHEMA, EncodedBatch, RowEncoder
from oncelog.spark.plan import Mode
from oncelog.spark.python_worker import settled
from oncelog.spark.tally import Count, Tally, tally

SPARK_ERRORS = (PySparkException, Py4JError)
PUMP_COLLECT_BYTES_MAX = 64 * 1024 * 1024
"""More encoded bytes than this come to the driver one task at a time."""


class DeliveryFailed(Exception):
    """Not everything was sent. The transaction has to be aborted; then the same can be sent again."""


class DeliveryChanged(DeliveryFailed):
    """What was sent is not what was encoded: Spark has computed part of it again, and otherwise."""


@dataclass(frozen=True, slots=True)
class Producing:
    """What whoever sends has to know."""

    bootstrap_servers: str
    transactional_id: str
    client_id: str
    identity: ProducerIdentity
    version: TransactionVersion


class Delivery(Protocol):
    """An encoded micro-batch and the way it is sent."""

    @property
    def mode(self) -> Mode: ...

    @property
    def counts(self) -> Tally:
        """What was encoded, by target."""
        ...

    def send(self, producing: Producing) -> Tally:
        """Send all of it; return when all of it is acknowledged and nobody can send any more.

        Raises DeliveryFailed, or what the client raises.
        """
        ...

    def close(self) -> None:
        """Free what was kept for sending again."""
        ...


class DriverPump:
    """The driver's connection, kept from one transaction to the next."""

    def __init__(self) -> None:
        self._sender: BatchSender | None = None

    def send(
        self, batches: Iterable[EncodedBatch], partitions: tuple[TopicPartition, ...], producing: Producing
    ) -> Tally:
        """Send batches in their order. Raises TransactionFailed, ProducerFenced or BrokerRefused."""
        sender = self._ready(producing)
        try:
            sent = send_all(sender, batches, partitions)
        except BaseException:
            self.close()
            raise
        return sent

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def _ready(self, producing: Producing) -> BatchSender:
        if self._sender is None:
            self._sender = open_sender(producing)
        else:
            self._sender.begin(producing.identity)
        return self._sender


def open_sender(producing: Producing) -> BatchSender:
    return BatchSender(
        producing.bootstrap_servers,
        producing.transactional_id,
        producing.identity,
        producing.version,
        client_id=producing.client_id,
    )


def send_all(sender: BatchSender, batches: Iterable[EncodedBatch], partitions: tuple[TopicPartition, ...]) -> Tally:
    """Send batches, wait for every acknowledgement, and count what was acknowledged."""
    sent: Tally = {}
    waiting: dict[TopicPartition, list[Any]] = {}
    waiting_bytes = 0
    for batch in batches:
        count = Count(batch.records, 1, len(batch.data), batch.crc)
        sent[batch.target] = sent.get(batch.target, Count()).plus(count)
        waiting.setdefault(partitions[batch.target], []).append(batch.data)
        waiting_bytes += len(batch.data)
        if waiting_bytes >= SEND_BYTES:
            sender.send(waiting)
            waiting, waiting_bytes = {}, 0
    sender.send(waiting)
    written = sender.flush()
    for target, count in sent.items():
        acknowledged = written[partitions[target]].records
        if acknowledged != count.records:
            raise DeliveryFailed(f"{partitions[target]}: {count.records} records sent, {acknowledged} acknowledged")
    return sent


SEND_BYTES = 8 * 1024 * 1024
"""How much is handed to the client at once: the first batches of many partitions then leave in one request."""


@dataclass(frozen=True, slots=True)
class CollectedBatches:
    """Batches in the driver's memory, sent by the driver."""

    batches: list[EncodedBatch]
    counts: Tally
    partitions: tuple[TopicPartition, ...]
    pump: DriverPump

    @property
    def mode(self) -> Mode:
        return Mode.DRIVER_PUMP

    def send(self, producing: Producing) -> Tally:
        return self.pump.send(self.batches, self.partitions, producing)

    def close(self) -> None:
        return


def collected(
    batches: list[EncodedBatch], partitions: tuple[TopicPartition, ...], pump: DriverPump
) -> CollectedBatches:
    return CollectedBatches(batches, _tally_of(batches), partitions, pump)


def _tally_of(batches: Iterable[EncodedBatch]) -> Tally:
    return tally((batch.target, Count(batch.records, 1, len(batch.data), batch.crc)) for batch in batches)


class EncodedRows:
    """The encoded micro-batch where the tasks left it: computed once, kept until the transaction has ended.

    Keeping it means that sending again computes nothing again, that a stateful query's state is written once, and that
    the transaction begins only when the slow work is done.
    """

    def __init__(self, rows: DataFrame, encoder: RowEncoder) -> None:
        """Run the query's plan for this micro-batch. Raises what Spark raises."""
        encode = _EncodeTask(encoder)
        self.rows = rows.mapInArrow(encode, ENCODED_SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self.counts = self._count()
        except BaseException:
            self.close()
            raise

    def _count(self) -> Tally:
        found = self.rows.select("target", "records", "size", "crc").collect()
        return tally((row.target, Count(row.records, 1, row["size"], row.crc)) for row in found)

    def close(self) -> None:
        self.rows.unpersist()


class _EncodeTask:
    """What a task does with its rows."""

    def __init__(self, encoder: RowEncoder) -> None:
        self._encoder = encoder

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        source = 0 if context is None else context.partitionId()
        return settled(self._encoder.encoded_rows(rows, source), "encode")


class PumpedRows:
    """Encoded rows that come to the driver to be sent."""

    def __init__(self, encoded: EncodedRows, partitions: tuple[TopicPartition, ...], pump: DriverPump) -> None:
        self._encoded = encoded
        self._partitions = partitions
        self._pump = pump

    @property
    def mode(self) -> Mode:
        return Mode.DRIVER_PUMP

    @property
    def counts(self) -> Tally:
        return self._encoded.counts

    def send(self, producing: Producing) -> Tally:
        return self._pump.send(self._batches(), self._partitions, producing)

    def close(self) -> None:
        self._encoded.close()

    def _batches(self) -> Iterator[EncodedBatch]:
        size_bytes = sum(count.size_bytes for count in self.counts.values())
        rows = self._encoded.rows.select("target", "records", "crc", "batch")
        try:
            source = rows.toLocalIterator() if size_bytes > PUMP_COLLECT_BYTES_MAX else iter(rows.collect())
            for row in source:
                yield EncodedBatch(row.target, row.records, row.crc, row.batch)
        except SPARK_ERRORS as error:
            raise DeliveryFailed(f"collecting the micro-batch failed: {error}") from error
