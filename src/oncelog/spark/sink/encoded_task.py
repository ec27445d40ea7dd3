"""Encoded rows on their way from the tasks of format("oncelog") to the process that sends them.

Spark may run a task of a Python data source again, or twice at the same time, so no task sends anything. It encodes its rows
without a producer and stages them: a few inside its message, more in a file that the message names, for the driver's memory is
small. Spark gives the driver one message of each task, that of the attempt that won. Files of other attempts are removed with the
directory.
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
from oncelog.spark.options.table import LOCAL, OptionError, scheme_and_path
from oncelog.spark.sink.delivery import BatchDelivery, DriverSender, Producing, Tally, count_of, tally
from oncelog.spark.sink.encoding import ENCODED_TABLE, PROBLEM, UNWRITABLE, EncodedBatch, RowEncoder, batches_in
from oncelog.spark.sink.writable import RowError

INLINE_BYTES_MAX = 128 * 1024
"""The messages of a thousand tasks are 128 MB in the driver's memory."""


class StagingError(Exception):
    """Encoded rows could not be staged, or are not there any more."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The encoded rows of one task: an Arrow stream, in the message itself or in a file."""

    inline: bytes | None
    path: str | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the groups in which they were encoded. Raises StagingError."""
        try:
            with pa.BufferReader(self.inline) if self.path is None else pa.OSFile(self.path) as source:
                yield from pa.ipc.open_stream(source)
        except (OSError, pa.ArrowInvalid) as error:
            raise StagingError(f"rows that a task had encoded cannot be read any more: {error}") from None


@dataclass(frozen=True, slots=True)
class Staging:
    """The directory of one write. The driver makes it: a task that does not find it shares no file system with the driver."""

    directory: str

    def keep(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> StagedRows:
        """Stage a task's encoded rows. Raises StagingError."""
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
    """The directory under which writes stage rows. Raises OptionError."""
    if location is None:
        return Path(tempfile.gettempdir(), f"oncelog-staging-{os.getuid()}")
    scheme, path = scheme_and_path(location)
    if scheme not in LOCAL:
        raise OptionError(
            f"option stagingLocation is a directory that all nodes and the driver see, not one in {scheme}:"
        )
    return Path(path)


def new_staging(root: Path, owner: str) -> Staging:
    """Make the directory of a write, and remove those of this owner's earlier writes. Raises StagingError."""
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
    """A task's message to the driver: its encoded rows, and their number for each partition.

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
    """The encoder and the directory that all tasks of a write share. It travels to them."""

    encoder: RowEncoder
    staging: Staging

    def run(self, rows: Iterator[pa.RecordBatch], source: int, micro_batch: MicroBatch | None) -> EncodedTask:
        """Encode and stage a task's rows. Raises StagingError."""
        turn = 0 if micro_batch is None else micro_batch.batch_id
        notes = _Counter()
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


class _Counter:
    """Counts encoded rows while they pass."""

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
                    self.counts = tally(chain(self.counts.items(), [(batch.target, count_of(batch))]))
            yield table


class StagedDelivery(BatchDelivery):
    """The encoded rows of all tasks of a write, sent by this process in the order of the tasks."""

    def __init__(self, tasks: Sequence[EncodedTask], driver: DriverSender) -> None:
        """Raises RowError where a task had rows that cannot be written."""
        problem = next((task.problem for task in tasks if task.problem is not None), None)
        if problem is not None:
            raise RowError(problem)
        self._tasks = sorted(tasks, key=lambda task: task.source)
        self._driver = driver
        partitions = tuple(sorted({partition for task in tasks for partition in task.partitions.values()}))
        self._numbers = {partition: number for number, partition in enumerate(partitions)}
        counts = tally((self._number(task, target), count) for task in tasks for target, count in task.counts.items())
        super().__init__(counts, sum(task.unwritable for task in tasks), partitions)

    def send(self, producing: Producing) -> Tally:
        """Raises StagingError, or what the client raises."""
        return self._driver.send(self._batches(), self.partitions, producing)

    def _batches(self) -> Iterator[EncodedBatch]:
        for task in self._tasks:
            for table in task.rows.batches():
                for batch in batches_in(table):
                    if batch.target >= 0:
                        yield replace(_whole(batch), target=self._number(task, batch.target))

    def _number(self, task: EncodedTask, target: int) -> int:
        return self._numbers[task.partitions[target]]


def _whole(batch: EncodedBatch) -> EncodedBatch:
    """Check a batch against its checksum: stamping makes a new one, which would hide damage of a disk."""
    header = read_header(batch.data)
    if header.crc != batch.crc or not crc_is_valid(batch.data, 0, header):
        raise StagingError("rows that a task had encoded were changed on disk")
    return batch
