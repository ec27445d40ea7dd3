"""Encoded micro-batches, and sending them under one producer identity after the other, as often as it takes.

Both the encoded and the sent records are counted for each target, so that the two can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

from oncelog.client import BatchSender, ProducerIdentity, TopicPartition
from oncelog.client.values import TransactionVersion
from oncelog.spark import plan
from oncelog.spark.plan import Mode
from oncelog.spark.session.python_worker import frozen_after
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink.encoding import ENCODED_SCHEMA, PROBLEM, UNWRITABLE, EncodedBatch, RowEncoder
from oncelog.spark.sink.settings import SinkSettings
from oncelog.spark.sink.writable import RowError

CHECKSUM_MODULUS = 1 << 63


@dataclass(frozen=True, slots=True)
class Count:
    """The records, batches and bytes of one target, and the sum of its batches' checksums."""

    records: int = 0
    batches: int = 0
    size_bytes: int = 0
    checksum: int = 0

    def plus(self, other: Count) -> Count:
        return Count(
            self.records + other.records,
            self.batches + other.batches,
            self.size_bytes + other.size_bytes,
            (self.checksum + other.checksum) % CHECKSUM_MODULUS,
        )


Tally = dict[int, Count]
"""A count for each target that has records."""


def tally(counts: Iterable[tuple[int, Count]]) -> Tally:
    total: Tally = {}
    for target, count in counts:
        total[target] = total.get(target, Count()).plus(count)
    return total


def count_of(batch: EncodedBatch) -> Count:
    return Count(batch.records, 1, len(batch.data), batch.crc)


def summed(counts: Tally) -> Count:
    total = Count()
    for count in counts.values():
        total = total.plus(count)
    return total


def difference(encoded: Tally, sent: Tally) -> str | None:
    """The difference in a sentence; None if exactly the encoded records were sent."""
    for target in sorted(encoded.keys() | sent.keys()):
        expected, found = encoded.get(target, Count()), sent.get(target, Count())
        if expected != found:
            if expected.records != found.records:
                return f"target {target}: {expected.records} records were encoded, but {found.records} were sent"
            return f"target {target}: {expected.records} records were sent that are not the ones that were encoded"
    return None


SPARK_ERRORS = (PySparkException, Py4JError)
PIECE_BYTES_MAX = 64 * 1024 * 1024
"""The driver collects about this many encoded bytes at once."""


class BatchDeliveryFailed(Exception):
    """Not everything was sent. The transaction has to be aborted; then the same can be sent again."""


class DeliveryChanged(BatchDeliveryFailed):
    """The sent records differ from the encoded ones: Spark has computed some of them again, with another result."""


@dataclass(frozen=True, slots=True)
class Producing:
    """The settings of a sender. Without a transactional id there is no transaction, and records are visible at once."""

    settings: SinkSettings
    transactional_id: str | None
    identity: ProducerIdentity
    version: TransactionVersion


class BatchDelivery(ABC):
    """An encoded micro-batch and the way it is sent.

    `counts` has the encoded records by target, a number in `partitions`; `unwritable` is the number of records that could not be
    written to theirs.
    """

    mode = Mode.DRIVER_PUMP

    def __init__(self, counts: Tally, unwritable: int, partitions: tuple[TopicPartition, ...]) -> None:
        self.counts = counts
        self.unwritable = unwritable
        self.partitions = partitions

    @property
    def written(self) -> list[TopicPartition]:
        """The partitions that get records."""
        return [self.partitions[target] for target in self.counts]

    @abstractmethod
    def send(self, producing: Producing) -> Tally:
        """Send all of it; return when all of it is acknowledged and no task can send any more.

        Raises BatchDeliveryFailed, or what the client raises.
        """

    def close(self) -> None:  # noqa: B027
        """Free what was kept for sending again."""


class DriverSender:
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
    settings = producing.settings
    return BatchSender(
        settings.bootstrap_servers,
        producing.transactional_id,
        producing.identity,
        producing.version,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        delivery_timeout_ms=settings.delivery_timeout_ms,
        security=settings.security,
    )


def send_all(sender: BatchSender, batches: Iterable[EncodedBatch], partitions: tuple[TopicPartition, ...]) -> Tally:
    """Send batches, wait for every acknowledgement, and count what was acknowledged."""
    sent: Tally = {}
    waiting: dict[TopicPartition, list[Any]] = {}
    waiting_bytes = 0
    for batch in batches:
        sent[batch.target] = sent.get(batch.target, Count()).plus(count_of(batch))
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
            raise BatchDeliveryFailed(
                f"{partitions[target]}: {count.records} records sent, {acknowledged} acknowledged"
            )
    return sent


SEND_BYTES = 8 * 1024 * 1024
"""The client gets this much at once: the first batches of many partitions then leave in one request."""


class CollectedBatches(BatchDelivery):
    """Batches in the driver's memory, sent by the driver."""

    def __init__(
        self,
        batches: list[EncodedBatch],
        partitions: tuple[TopicPartition, ...],
        driver: DriverSender,
        unwritable: int = 0,
    ) -> None:
        super().__init__(tally((batch.target, count_of(batch)) for batch in batches), unwritable, partitions)
        self._batches = batches
        self._driver = driver

    def send(self, producing: Producing) -> Tally:
        return self._driver.send(self._batches, self.partitions, producing)


class EncodedRows:
    """The encoded micro-batch where the tasks left it: computed once, kept until the transaction has ended.

    Sending again then computes nothing again, a stateful query's state is written once, and the transaction begins only when
    the slow work is done.
    """

    def __init__(self, rows: DataFrame, encoder: RowEncoder) -> None:
        """Run the query's plan for this micro-batch. Raises RowError, or what Spark raises."""
        encode = _EncodeTask(encoder)
        self._kept = rows.mapInArrow(encode, ENCODED_SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self.counts = self._count()
        except BaseException:
            self.close()
            raise

    def rows(self, slots: int) -> DataFrame:
        """One row for each record batch, read by few tasks: reading kept batches is little work."""
        return self._kept.where(functions.col("target") >= 0).coalesce(plan.TASKS_PER_SLOT * max(1, slots))

    def _count(self) -> Tally:
        found = self._kept.select("target", "source", "position", "records", "size", "crc").collect()
        if any(row.target == PROBLEM for row in found):
            problem = self._kept.where(functions.col("target") == PROBLEM).select("batch").first()
            assert problem is not None, "a row that is kept is found again"
            raise RowError(bytes(problem.batch).decode())
        self.unwritable: int = sum(row.records for row in found if row.target == UNWRITABLE)
        batches = [row for row in found if row.target >= 0]
        self.pieces = _pieces((row.source, row.position, row["size"]) for row in batches)
        return tally((row.target, Count(row.records, 1, row["size"], row.crc)) for row in batches)

    def close(self) -> None:
        self._kept.unpersist()


Place = tuple[int, int]
"""The place of a batch in its micro-batch: the task, and the position in it."""


def _pieces(sizes: Iterable[tuple[int, int, int]]) -> list[tuple[Place, Place]]:
    """Cut batches, in their order, into pieces of about PIECE_BYTES_MAX; each by its first place and its last."""
    pieces: list[tuple[Place, Place]] = []
    size_bytes = PIECE_BYTES_MAX
    for source, position, size in sorted(sizes):
        place = (source, position)
        if size_bytes >= PIECE_BYTES_MAX:
            pieces.append((place, place))
            size_bytes = 0
        pieces[-1] = (pieces[-1][0], place)
        size_bytes += size
    return pieces


class _EncodeTask(Shipped):
    """The function with which tasks encode their rows."""

    def __init__(self, encoder: RowEncoder) -> None:
        self._encoder = encoder

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        source = 0 if context is None else context.partitionId()
        return frozen_after(self._encoder.encoded_rows(rows, source), "encode")


class KeptDelivery(BatchDelivery):
    """A delivery of rows that the tasks keep."""

    def __init__(self, encoded: EncodedRows, partitions: tuple[TopicPartition, ...], slots: Callable[[], int]) -> None:
        """`slots` returns how many tasks fit at once. It is called each time: executors come and go."""
        super().__init__(encoded.counts, encoded.unwritable, partitions)
        self._encoded = encoded
        self._slots = slots

    def close(self) -> None:
        self._encoded.close()


class RowsSentByDriver(KeptDelivery):
    """Encoded rows that come to the driver to be sent."""

    def __init__(
        self,
        encoded: EncodedRows,
        partitions: tuple[TopicPartition, ...],
        slots: Callable[[], int],
        driver: DriverSender,
    ) -> None:
        super().__init__(encoded, partitions, slots)
        self._driver = driver

    def send(self, producing: Producing) -> Tally:
        return self._driver.send(self._batches(), self.partitions, producing)

    def _batches(self) -> Iterator[EncodedBatch]:
        rows = self._encoded.rows(self._slots()).select("target", "source", "position", "records", "crc", "batch")
        pieces = self._encoded.pieces
        try:
            for first, last in pieces:
                piece = rows if len(pieces) == 1 else rows.where(_is_between(first, last))
                for row in sorted(piece.collect(), key=lambda row: (row.source, row.position)):
                    yield EncodedBatch(row.target, row.records, row.crc, row.batch)
        except SPARK_ERRORS as error:
            raise BatchDeliveryFailed(f"collecting the micro-batch failed: {error}") from error


def _is_between(first: Place, last: Place) -> Column:
    """Conditions on single columns, too: Spark skips kept rows by those alone."""
    source, position = functions.col("source"), functions.col("position")
    condition = source.between(first[0], last[0])
    if first[0] == last[0]:
        return condition & position.between(first[1], last[1])
    place = functions.struct(source, position)
    return condition & place.between(_place(first), _place(last))


def _place(place: Place) -> Column:
    return functions.struct(functions.lit(place[0]), functions.lit(place[1]))
