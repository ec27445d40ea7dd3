"""What was encoded and what was sent, counted so that the two can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

from oncelog.client import BatchSender, ProducerIdentity, TopicPartition
from oncelog.client.security import Security
from oncelog.client.values import TransactionVersion
from oncelog.spark import plan
from oncelog.spark.plan import Mode
from oncelog.spark.session.python_worker import settled
from oncelog.spark.shipping import Shipped
from oncelog.spark.sink.encoding import ENCODED_SCHEMA, PROBLEM, UNWRITABLE, EncodedBatch, RowEncoder
from oncelog.spark.sink.writable import RowError

CHECKSUM_MODULUS = 1 << 63


@dataclass(frozen=True, slots=True)
class Count:
    """Of one target: records, batches, bytes, and the sum of the batches' checksums."""

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


def summed(counts: Tally) -> Count:
    total = Count()
    for count in counts.values():
        total = total.plus(count)
    return total


def difference(encoded: Tally, sent: Tally) -> str | None:
    """What is wrong, in words; None if exactly what was encoded was sent."""
    for target in sorted(encoded.keys() | sent.keys()):
        expected, found = encoded.get(target, Count()), sent.get(target, Count())
        if expected != found:
            if expected.records != found.records:
                return f"target {target}: {expected.records} records were encoded, but {found.records} were sent"
            return f"target {target}: {expected.records} records were sent that are not the ones that were encoded"
    return None


SPARK_ERRORS = (PySparkException, Py4JError)
PIECE_BYTES_MAX = 64 * 1024 * 1024
"""So many encoded bytes come to the driver at once."""


class BatchDeliveryFailed(Exception):
    """Not everything was sent. The transaction has to be aborted; then the same can be sent again."""


class DeliveryChanged(BatchDeliveryFailed):
    """What was sent is not what was encoded: Spark has computed part of it again, and otherwise."""


@dataclass(frozen=True, slots=True)
class Producing:
    """What whoever sends has to know. Without a transactional id it is no transaction, and visible at once."""

    bootstrap_servers: str
    transactional_id: str | None
    client_id: str
    request_timeout_ms: int
    delivery_timeout_ms: int
    identity: ProducerIdentity
    version: TransactionVersion
    security: Security


class BatchDelivery(Protocol):
    """An encoded micro-batch and the way it is sent."""

    @property
    def mode(self) -> Mode: ...

    @property
    def counts(self) -> Tally:
        """What was encoded, by target."""
        ...

    @property
    def unwritable(self) -> int:
        """How many records could not be written where they were to go."""
        ...

    def send(self, producing: Producing) -> Tally:
        """Send all of it; return when all of it is acknowledged and nobody can send any more.

        Raises BatchDeliveryFailed, or what the client raises.
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
        request_timeout_ms=producing.request_timeout_ms,
        delivery_timeout_ms=producing.delivery_timeout_ms,
        security=producing.security,
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
            raise BatchDeliveryFailed(
                f"{partitions[target]}: {count.records} records sent, {acknowledged} acknowledged"
            )
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
    unwritable: int

    @property
    def mode(self) -> Mode:
        return Mode.DRIVER_PUMP

    def send(self, producing: Producing) -> Tally:
        return self.pump.send(self.batches, self.partitions, producing)

    def close(self) -> None:
        return


def collected(
    batches: list[EncodedBatch], partitions: tuple[TopicPartition, ...], pump: DriverPump, unwritable: int
) -> CollectedBatches:
    return CollectedBatches(batches, _tally_of(batches), partitions, pump, unwritable)


def _tally_of(batches: Iterable[EncodedBatch]) -> Tally:
    return tally((batch.target, Count(batch.records, 1, len(batch.data), batch.crc)) for batch in batches)


class EncodedRows:
    """The encoded micro-batch where the tasks left it: computed once, kept until the transaction has ended.

    Keeping it means that sending again computes nothing again, that a stateful query's state is written once, and that
    the transaction begins only when the slow work is done.
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
        """One row for each record batch, in few tasks where there is room for few: reading what is kept is little work."""
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
"""Where a batch is among those of its micro-batch: the task, and the position in it."""


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

    def __init__(
        self, encoded: EncodedRows, partitions: tuple[TopicPartition, ...], pump: DriverPump, slots: Callable[[], int]
    ) -> None:
        """`slots` says how many tasks fit at once. It is asked each time: executors come and go."""
        self._encoded = encoded
        self._partitions = partitions
        self._pump = pump
        self._slots = slots

    @property
    def mode(self) -> Mode:
        return Mode.DRIVER_PUMP

    @property
    def counts(self) -> Tally:
        return self._encoded.counts

    @property
    def unwritable(self) -> int:
        return self._encoded.unwritable

    def send(self, producing: Producing) -> Tally:
        return self._pump.send(self._batches(), self._partitions, producing)

    def close(self) -> None:
        self._encoded.close()

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
    """Also as conditions on one column each: by those Spark passes over what it keeps of other places."""
    source, position = functions.col("source"), functions.col("position")
    condition = source.between(first[0], last[0])
    if first[0] == last[0]:
        return condition & position.between(first[1], last[1])
    place = functions.struct(source, position)
    return condition & place.between(_place(first), _place(last))


def _place(place: Place) -> Column:
    return functions.struct(functions.lit(place[0]), functions.lit(place[1]))
