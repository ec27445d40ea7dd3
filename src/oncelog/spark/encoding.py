"""Rows of a DataFrame as record batches, each for one partition of the output, without a shuffle.

A task encodes its own rows in their order. Batches carry no producer yet; whoever sends them stamps them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncelog.client.values import TopicPartition
from oncelog.records import Codec
from oncelog.records.arrow_arrays import binary_array, integer_array
from oncelog.spark.key_partitions import NO_KEY, key_partitions

GROUP_BYTES = 16 * 1024 * 1024
"""How many bytes of rows are encoded together: more of them make fuller batches."""

CRC_POSITION = 17
RECORD_COUNT_POSITION = 57

ENCODED_SCHEMA = "target int, source int, position int, records int, size int, crc long, batch binary"
"""One row per record batch. `target` counts the partitions of the output, `source` the tasks; `position` is the batch's
place in its task. `crc` is the checksum of the batch before it is stamped."""

_ENCODED = pa.schema(
    [
        ("target", pa.int32()),
        ("source", pa.int32()),
        ("position", pa.int32()),
        ("records", pa.int32()),
        ("size", pa.int32()),
        ("crc", pa.int64()),
        ("batch", pa.binary()),
    ]
)


class RowError(ValueError):
    """A row names a topic or partition that does not exist, or lacks what it needs."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The partitions that rows may go to, in order; a number in `target` counts along them."""

    partitions: tuple[TopicPartition, ...]

    def first_of(self, topic: str) -> int:
        return next((at for at, item in enumerate(self.partitions) if item.topic == topic), -1)

    def count_of(self, topic: str) -> int:
        return sum(item.topic == topic for item in self.partitions)


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One record batch, and which partition it is for."""

    target: int
    records: int
    crc: int
    data: Any


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """How the rows of one micro-batch become record batches. It travels to the tasks.

    `topic` is None where a column `topic` names it. Rows without a key or a partition go to one partition after the other,
    many in a row; `rotation` says with which to begin.
    """

    topic: str | None
    targets: Targets
    codec: Codec
    batch_bytes_max: int
    rotation: int

    def encoded_rows(self, rows: Iterable[pa.RecordBatch], source: int) -> Iterator[pa.RecordBatch]:
        """What a task returns: `ENCODED_SCHEMA`."""
        position = 0
        for batches in self.encode(rows, source):
            count = len(batches)
            yield pa.RecordBatch.from_arrays(
                [
                    integer_array([batch.target for batch in batches], pa.int32()),
                    integer_array([source] * count, pa.int32()),
                    integer_array(range(position, position + count), pa.int32()),
                    integer_array([batch.records for batch in batches], pa.int32()),
                    integer_array([len(batch.data) for batch in batches], pa.int32()),
                    integer_array([batch.crc for batch in batches], pa.int64()),
                    binary_array([batch.data for batch in batches]),
                ],
                schema=_ENCODED,
            )
            position += count

    def encode(self, rows: Iterable[pa.RecordBatch], source: int) -> Iterator[list[EncodedBatch]]:
        """Encode rows, a group of them at a time. Within each target the order of rows is kept. Raises RowError."""
        for number, group in enumerate(_groups(rows)):
            yield list(self._encode_group(group, self.rotation + source + number))

    def _encode_group(self, table: pa.Table, turn: int) -> Iterator[EncodedBatch]:
        # Imports Numba, which a driver whose tasks encode the rows has no use for.
        from oncelog.records.arrow import arrow_to_batches

        if table.num_rows == 0:
            return
        if table.column("value").null_count and table.column("value").type == pa.null():
            raise RowError("the column value has no type")
        targets = self._targets_of(table, turn)
        wanted = table.select([name for name in table.column_names if name in ("key", "value", "headers")])
        for target, part in _by_target(wanted, targets, len(self.targets.partitions)):
            timestamp_ms = time.time_ns() // 1_000_000
            for data in arrow_to_batches(
                part, timestamp_ms=timestamp_ms, codec=self.codec, batch_bytes_max=self.batch_bytes_max
            ):
                yield EncodedBatch(target, record_count(data), crc(data), data)

    def _targets_of(self, table: pa.Table, turn: int) -> NDArray[np.int32]:
        if self.topic is not None:
            return self._targets_in(self.topic, table, turn)
        names = _combined(table.column("topic"))
        if names.null_count:
            raise RowError("a row has no topic: give the sink topic=..., or fill the column")
        found = np.empty(table.num_rows, np.int32)
        for name in pc.unique(names).to_pylist():
            rows = np.flatnonzero(np.asarray(pc.equal(names, name)))
            found[rows] = self._targets_in(name, table.take(integer_array(rows, pa.int64())), turn)
        return found

    def _targets_in(self, topic: str, table: pa.Table, turn: int) -> NDArray[np.int32]:
        first, count = self.targets.first_of(topic), self.targets.count_of(topic)
        if count == 0:
            raise RowError(f"a row is for topic {topic!r}, which does not exist")
        partitions = np.full(table.num_rows, NO_KEY, np.int32)
        if "key" in table.column_names and not pa.types.is_null(table.column("key").type):
            partitions = key_partitions(_combined(table.column("key")), count)
        partitions[partitions == NO_KEY] = turn % count
        if "partition" in table.column_names:
            partitions = _as_told(table.column("partition"), partitions, topic, count)
        return partitions + np.int32(first)


def crc(batch: bytes) -> int:
    """The checksum in the header of a batch."""
    return int(struct.unpack_from(">I", batch, CRC_POSITION)[0])


def record_count(batch: bytes) -> int:
    return int(struct.unpack_from(">i", batch, RECORD_COUNT_POSITION)[0])


def _groups(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in rows:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _by_target(table: pa.Table, targets: NDArray[np.int32], target_count: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each target, in their order."""
    counts = np.bincount(targets, minlength=target_count)
    used: Sequence[int] = np.flatnonzero(counts).tolist()
    if len(used) == 1:
        yield used[0], table
        return
    # Small integers are sorted by radix, in one pass.
    narrow = targets.astype(np.int16) if target_count <= 2**15 else targets
    order = np.argsort(narrow, kind="stable")
    ordered = table.combine_chunks().take(integer_array(order, pa.int64()))
    start = 0
    for target in used:
        yield target, ordered.slice(start, int(counts[target]))
        start += int(counts[target])


def _as_told(column: pa.ChunkedArray, partitions: NDArray[np.int32], topic: str, count: int) -> NDArray[np.int32]:
    told = _combined(column.cast(pa.int32()))
    numbers = np.asarray(pc.fill_null(told, NO_KEY))
    given = ~np.asarray(told.is_null()) if told.null_count else np.ones(len(numbers), np.bool_)
    outside = given & ((numbers < 0) | (numbers >= count))
    if outside.any():
        odd = int(numbers[outside][0])
        raise RowError(f"a row is for partition {odd} of topic {topic!r}, which has partitions 0 to {count - 1}")
    return np.where(given, numbers, partitions).astype(np.int32)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
