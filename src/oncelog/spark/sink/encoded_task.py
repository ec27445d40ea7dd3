"""What a task of format("oncelog") does, and how what the tasks have encoded is sent.

Spark may run a task of a Python data source again, or twice at the same time, so no task sends anything. It encodes its
rows without a producer and puts them aside. Of each task Spark gives the driver one message, that of the attempt that won.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from oncelog.client import TopicPartition
from oncelog.records import crc_is_valid, read_header
from oncelog.spark.plan import Mode
from oncelog.spark.sink.delivery import DriverPump, Producing
from oncelog.spark.sink.encoding import ENCODED_TABLE, PROBLEM, UNWRITABLE, EncodedBatch, RowEncoder, batches_in
from oncelog.spark.sink.staging import StagedRows, Staging, StagingError
from oncelog.spark.sink.tally import Count, Tally, tally
from oncelog.spark.sink.unwritable import RowError


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The micro-batch that a task works for."""

    query_id: str
    batch_id: int


@dataclass(frozen=True)
class EncodedTask(WriterCommitMessage):
    """What a task tells the driver: where its encoded rows are, and how many of them for which partition.

    `problem` is a sentence where the rows cannot be written. `micro_batch` is None in a batch write.
    """

    source: int
    staging: Staging
    rows: StagedRows
    partitions: dict[int, TopicPartition] = field(default_factory=dict)
    counts: Tally = field(default_factory=dict)
    unwritable: int = 0
    problem: str | None = None
    micro_batch: MicroBatch | None = None


@dataclass(frozen=True, slots=True)
class EncodingJob:
    """What all tasks of a write have in common. It travels to them."""

    encoder: RowEncoder
    staging: Staging

    def run(self, rows: Iterator[pa.RecordBatch], source: int, micro_batch: MicroBatch | None) -> EncodedTask:
        """Encode a task's rows and put them aside. Raises StagingError."""
        turn = 0 if micro_batch is None else micro_batch.batch_id
        notes = _Notes()
        encoded = notes.taken_from(replace(self.encoder, rotation=turn).encoded_rows(rows, source))
        staged = self.staging.keep(encoded, ENCODED_TABLE)
        return EncodedTask(
            source=source,
            staging=self.staging,
            rows=staged,
            partitions={target: self.encoder.targets.partitions[target] for target in notes.counts},
            counts=notes.counts,
            unwritable=notes.unwritable,
            problem=notes.problem,
            micro_batch=micro_batch,
        )


class _Notes:
    """What is to be told of encoded rows, noted while they pass."""

    def __init__(self) -> None:
        self.counts: Tally = {}
        self.unwritable = 0
        self.problem: str | None = None

    def taken_from(self, encoded: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in encoded:
            for batch in batches_in(table):
                if batch.target == PROBLEM:
                    self.problem = bytes(batch.data).decode()
                elif batch.target == UNWRITABLE:
                    self.unwritable += batch.records
                else:
                    self.counts = tally(chain(self.counts.items(), [(batch.target, _count(batch))]))
            yield table


class StagedDelivery:
    """The encoded rows of all tasks of a write, sent by this process in the order of the tasks."""

    def __init__(self, tasks: Sequence[EncodedTask], pump: DriverPump) -> None:
        """Raises RowError where a task had rows that cannot be written."""
        problem = next((task.problem for task in tasks if task.problem is not None), None)
        if problem is not None:
            raise RowError(problem)
        self._tasks = sorted(tasks, key=lambda task: task.source)
        self._pump = pump
        self.partitions = tuple(sorted({partition for task in tasks for partition in task.partitions.values()}))
        self._numbers = {partition: number for number, partition in enumerate(self.partitions)}
        self.counts = tally(
            (self._number(task, target), count) for task in tasks for target, count in task.counts.items()
        )
        self.unwritable = sum(task.unwritable for task in tasks)

    @property
    def mode(self) -> Mode:
        return Mode.DRIVER_PUMP

    def send(self, producing: Producing) -> Tally:
        """Raises StagingError, or what the client raises."""
        return self._pump.send(self._batches(), self.partitions, producing)

    def close(self) -> None:
        return

    def _batches(self) -> Iterator[EncodedBatch]:
        for task in self._tasks:
            for table in task.rows.batches():
                for batch in batches_in(table):
                    if batch.target >= 0:
                        yield replace(_whole(batch), target=self._number(task, batch.target))

    def _number(self, task: EncodedTask, target: int) -> int:
        return self._numbers[task.partitions[target]]


def _count(batch: EncodedBatch) -> Count:
    return Count(batch.records, 1, len(batch.data), batch.crc)


def _whole(batch: EncodedBatch) -> EncodedBatch:
    """A batch as it was encoded: its checksum is made anew when it is stamped, and would hide what a disk has done."""
    header = read_header(batch.data)
    if header.crc != batch.crc or not crc_is_valid(batch.data, 0, header):
        raise StagingError("rows that a task had encoded were changed on disk")
    return batch
