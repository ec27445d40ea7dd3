"""Encoded rows on their way from the tasks of a Python data source to the process that sends them.

Few travel inside a task's message. More would fill the driver's memory, so they wait in a file that the message names.
Only the messages of attempts that won reach the driver: what the others have left is removed with the directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from oncelog.client import TopicPartition
from oncelog.records import crc_is_valid, read_header
from oncelog.spark.options.table import OptionError
from oncelog.spark.options.values import LOCAL, scheme_and_path
from oncelog.spark.plan import Mode
from oncelog.spark.sink.delivery import Count, DriverPump, Producing, Tally, tally
from oncelog.spark.sink.encoding import ENCODED_TABLE, PROBLEM, UNWRITABLE, EncodedBatch, RowEncoder, batches_in
from oncelog.spark.sink.writable import RowError

INLINE_BYTES_MAX = 128 * 1024
"""The messages of a thousand tasks are 128 MB in the driver's memory."""


class StagingError(Exception):
    """Encoded rows could not be put aside, or are not there any more."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one task encoded: an Arrow stream, in the message itself or in a file."""

    inline: bytes | None
    path: str | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as much at a time as was encoded together. Raises StagingError."""
        try:
            with pa.BufferReader(self.inline) if self.path is None else pa.OSFile(self.path) as source:
                yield from pa.ipc.open_stream(source)
        except (OSError, pa.ArrowInvalid) as error:
            raise StagingError(f"rows that a task had encoded cannot be read any more: {error}") from None


@dataclass(frozen=True, slots=True)
class Staging:
    """The directory of one write. The driver makes it: where a task does not find it, it cannot be shared."""

    directory: str

    def keep(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> StagedRows:
        """Put a task's encoded rows aside. Raises StagingError."""
        few: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in rows:
            few.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > INLINE_BYTES_MAX:
                return StagedRows(None, self._write(chain(few, rows), schema))
        sink = pa.BufferOutputStream()
        _write_stream(sink, few, schema)
        return StagedRows(sink.getvalue().to_pybytes(), None)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> str:
        if not Path(self.directory).is_dir():
            raise StagingError(
                f"a task has encoded more than {INLINE_BYTES_MAX} bytes, and has no directory in common with the driver to "
                "put them: set option stagingLocation to one that all nodes and the driver see"
            )
        path = str(Path(self.directory, f"{uuid4().hex}.arrow"))
        try:
            with pa.OSFile(path, "wb") as sink:
                _write_stream(sink, rows, schema)
        except OSError as error:
            raise StagingError(f"encoded rows cannot be put into {self.directory}: {error}") from None
        return path


def _write_stream(
    sink: pa.NativeFile, rows: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema
) -> None:
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in rows:
            stream.write_batch(batch)


def staging_root(location: str | None) -> Path:
    """The directory under which writes put rows aside. Raises OptionError."""
    if location is None:
        return Path(tempfile.gettempdir(), f"oncelog-staging-{os.getuid()}")
    scheme, path = scheme_and_path(location)
    if scheme not in LOCAL:
        raise OptionError(
            f"option stagingLocation is a directory that all nodes and the driver see, not one in {scheme}:"
        )
    return Path(path)


def new_staging(root: Path, owner: str) -> Staging:
    """Make the directory of a write. What an earlier write of this owner has left there is removed. Raises StagingError."""
    place = root / hashlib.sha256(owner.encode()).hexdigest()[:32]
    directory = place / uuid4().hex
    shutil.rmtree(place, ignore_errors=True)
    try:
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StagingError(f"no directory can be made under {root}: {error}") from None
    return Staging(str(directory))


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
