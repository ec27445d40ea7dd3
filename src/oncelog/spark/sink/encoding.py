"""Rows of a DataFrame as record batches, each for one partition of the output, without a shuffle.

A task encodes its own rows in their order. The sender stamps the batches with the producer.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncelog.client.values import TopicPartition
from oncelog.records import Codec
from oncelog.records.arrow_arrays import binary_array, integer_array
from oncelog.spark.sink.key_partitions import NO_KEY, key_partitions
from oncelog.spark.sink.writable import (
    NO_TOPIC_SENTENCE,
    Limits,
    Policy,
    Reason,
    RowError,
    Unwritable,
    dead_letters,
    outside_sentence,
    refused_sentence,
    size_bounds,
    too_large_sentence,
    unknown_sentence,
)

GROUP_BYTES = 16 * 1024 * 1024
"""The bytes of rows that are encoded together: more of them make fuller batches."""

CRC_POSITION = 17
RECORD_COUNT_POSITION = 57

ENCODED_SCHEMA = "target int, source int, position int, records int, size int, crc long, batch binary"
"""One row per record batch. `target` counts the partitions of the output, `source` the tasks; `position` is the batch's
place in its task. `crc` is the checksum of the batch before it is stamped.

A row with the target UNWRITABLE has no batch: it counts `records` that could not be written. In a row with the target
PROBLEM the batch is a sentence: nothing can be written."""

UNWRITABLE, PROBLEM = -1, -2

ARROW_TYPES = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}


def arrow_schema(columns: str) -> pa.Schema:
    """The Arrow schema of columns as Spark writes them: "target int, crc long"."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in map(str.split, columns.split(", "))])


ENCODED_TABLE = arrow_schema(ENCODED_SCHEMA)


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


class EncodedGroup(NamedTuple):
    """The batches of some rows, and the number of rows that could not be written to their target."""

    batches: list[EncodedBatch]
    unwritable: int


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes the rows of one micro-batch as record batches. It travels to the tasks.

    `topic` is None where a column `topic` names it. Rows without a key or a partition go to one partition after the other,
    many in a row, beginning with `rotation`. `dead_letter_topic` is given with the policy that needs it.
    """

    topic: str | None
    targets: Targets
    codec: Codec
    batch_bytes_max: int
    rotation: int
    limits: Limits = field(default_factory=Limits)
    policy: Policy = Policy.FAIL
    dead_letter_topic: str | None = None

    def encoded_rows(self, rows: Iterable[pa.RecordBatch], source: int) -> Iterator[pa.RecordBatch]:
        """The rows that a task returns: `ENCODED_SCHEMA`. A task that raised would be run again, with the same end."""
        position = 0
        rows = iter(rows)
        try:
            for group in self.encode(rows, source):
                batches = group.batches
                if group.unwritable:
                    batches = [*batches, EncodedBatch(UNWRITABLE, group.unwritable, 0, b"")]
                yield _encoded(batches, source, position)
                position += len(batches)
        except RowError as error:
            for _ in rows:
                pass  # Spark counts on a task that returns to have read its rows
            yield _encoded([EncodedBatch(PROBLEM, 0, 0, str(error).encode())], source, position)

    def encode(self, rows: Iterable[pa.RecordBatch], source: int) -> Iterator[EncodedGroup]:
        """Encode rows, a group of them at a time. Within each target the order of rows is kept. Raises RowError."""
        for number, group in enumerate(_groups(rows)):
            yield self._encode_group(group, self.rotation + source + number)

    def _encode_group(self, table: pa.Table, turn: int) -> EncodedGroup:
        if table.column("value").null_count and table.column("value").type == pa.null():
            raise RowError("the column value has no type")
        targets, found = self._targets_of(table, turn)
        found += self._beyond_request_size(table, targets)
        batches: list[EncodedBatch] = []
        for target, part, rows in _by_target(table, targets, len(self.targets.partitions)):
            several, too_large = self._encode_part(target, part, rows)
            batches += several
            found += too_large
        for one in found:
            batches += self._instead(table, one, turn)
        return EncodedGroup(batches, sum(len(one.rows) for one in found))

    def _encode_part(
        self, target: int, part: pa.Table, rows: NDArray[np.int64]
    ) -> tuple[list[EncodedBatch], list[Unwritable]]:
        """The rows of one target; `rows` says where in their group they are."""
        # Imports Numba, which a driver whose tasks encode the rows has no use for.
        from oncelog.records.from_arrow import arrow_to_batches

        topic = self.targets.partitions[target].topic
        limit = self.limits.batch_bytes_max.get(topic)
        try:
            encoded = arrow_to_batches(
                part.select([name for name in part.column_names if name in ("key", "value", "headers")]),
                timestamp_ms=time.time_ns() // 1_000_000,
                codec=self.codec,
                batch_bytes_max=self.batch_bytes_max if limit is None else min(limit, self.batch_bytes_max),
            )
        except ValueError as error:
            raise RowError(str(error)) from None
        batches: list[EncodedBatch] = []
        too_large: list[Unwritable] = []
        first = 0
        for data in encoded:
            count = record_count(data)
            if limit is not None and len(data) > limit:
                # Batches are made to keep to the limit. One that does not has a single record.
                sentence = too_large_sentence(topic, len(data), "the topic's max.message.bytes", limit)
                too_large.append(Unwritable(rows[first : first + count], Reason.TOO_LARGE, topic, sentence))
            else:
                batches.append(EncodedBatch(target, count, crc(data), data))
            first += count
        return batches, too_large

    def _instead(self, table: pa.Table, found: Unwritable, turn: int) -> list[EncodedBatch]:
        """The batches in place of unwritable rows. Raises RowError where the policy does not let them be left out."""
        if self.policy is Policy.FAIL:
            raise RowError(found.sentence)
        if self.policy is Policy.SKIP:
            return []
        assert self.dead_letter_topic is not None, "the policy comes with a topic"
        # What the user's limit keeps from a topic may go there: only that topic's own limit counts.
        encoder = replace(
            self,
            topic=self.dead_letter_topic,
            limits=replace(self.limits, request_bytes_max=None),
            policy=Policy.FAIL,
            dead_letter_topic=None,
        )
        return encoder._encode_group(dead_letters(table, found), turn).batches

    def _beyond_request_size(self, table: pa.Table, targets: NDArray[np.int32]) -> list[Unwritable]:
        """The rows that a Java producer would refuse for max.request.size. They lose their targets."""
        limit = self.limits.request_bytes_max
        if limit is None:
            return []
        bounds = size_bounds(table)
        found: list[Unwritable] = []
        for row in np.flatnonzero((bounds > limit) & (targets >= 0)):
            topic = self.targets.partitions[targets[row]].topic
            sentence = too_large_sentence(topic, int(bounds[row]), "max.request.size", limit)
            found.append(Unwritable(np.array([row], np.int64), Reason.TOO_LARGE, topic, sentence))
            targets[row] = UNWRITABLE
        return found

    def _targets_of(self, table: pa.Table, turn: int) -> tuple[NDArray[np.int32], list[Unwritable]]:
        """The target of each row, UNWRITABLE for those that have none."""
        if self.topic is not None:
            return self._targets_in(self.topic, table, np.arange(table.num_rows), turn)
        names = _combined(table.column("topic"))
        targets = np.full(table.num_rows, UNWRITABLE, np.int32)
        found: list[Unwritable] = []
        if names.null_count:
            rows = np.flatnonzero(np.asarray(names.is_null()))
            found.append(Unwritable(rows, Reason.NO_TOPIC, None, NO_TOPIC_SENTENCE))
        for name in pc.unique(names.drop_null()).to_pylist():
            rows = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False)))
            targets[rows], unwritable = self._targets_in(name, table.take(integer_array(rows, pa.int64())), rows, turn)
            found += unwritable
        return targets, found

    def _targets_in(
        self, topic: str, table: pa.Table, rows: NDArray[np.int64], turn: int
    ) -> tuple[NDArray[np.int32], list[Unwritable]]:
        first, count = self.targets.first_of(topic), self.targets.count_of(topic)
        nowhere = np.full(table.num_rows, UNWRITABLE, np.int32)
        if topic in self.limits.refused:
            return nowhere, [Unwritable(rows, Reason.REFUSED_TOPIC, topic, refused_sentence(topic))]
        if count == 0:
            return nowhere, [Unwritable(rows, Reason.UNKNOWN_TOPIC, topic, unknown_sentence(topic))]
        partitions = np.full(table.num_rows, NO_KEY, np.int32)
        if "key" in table.column_names and not pa.types.is_null(table.column("key").type):
            partitions = key_partitions(_combined(table.column("key")), count)
        partitions[partitions == NO_KEY] = turn % count
        if "partition" not in table.column_names:
            return partitions + np.int32(first), []
        partitions = _as_told(table.column("partition"), partitions)
        outside = np.flatnonzero((partitions < 0) | (partitions >= count))
        targets = partitions + np.int32(first)
        if not len(outside):
            return targets, []
        targets[outside] = UNWRITABLE
        sentence = outside_sentence(topic, int(partitions[outside[0]]), count)
        return targets, [Unwritable(rows[outside], Reason.UNKNOWN_PARTITION, topic, sentence)]


def _encoded(batches: Sequence[EncodedBatch], source: int, position: int) -> pa.RecordBatch:
    count = len(batches)
    return pa.RecordBatch.from_arrays(
        [
            integer_array([batch.target for batch in batches], pa.int32()),
            integer_array([source] * count, pa.int32()),
            integer_array(range(position, position + count), pa.int32()),
            integer_array([batch.records for batch in batches], pa.int32()),
            integer_array([len(batch.data) for batch in batches], pa.int32()),
            integer_array([batch.crc for batch in batches], pa.int64()),
            binary_array([batch.data for batch in batches]),
        ],
        schema=ENCODED_TABLE,
    )


def batches_in(table: pa.RecordBatch) -> Iterator[EncodedBatch]:
    """The rows of a part of an `ENCODED_SCHEMA` table, without a copy of the batches. Three columns are not needed."""
    targets, records, crcs = (table.column(name).to_pylist() for name in ("target", "records", "crc"))
    data = table.column("batch")
    for at in range(table.num_rows):
        yield EncodedBatch(targets[at], records[at], crcs[at], memoryview(data[at].as_buffer()))


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


def _by_target(
    table: pa.Table, targets: NDArray[np.int32], target_count: int
) -> Iterator[tuple[int, pa.Table, NDArray[np.int64]]]:
    """The rows of each target, in their order, and which of the table they are."""
    everywhere = np.arange(table.num_rows)
    if len(targets) and targets.min() < 0:
        everywhere = np.flatnonzero(targets >= 0)
        table, targets = table.take(integer_array(everywhere, pa.int64())), targets[everywhere]
    counts = np.bincount(targets, minlength=target_count)
    used: Sequence[int] = np.flatnonzero(counts).tolist()
    if len(used) == 1:
        yield used[0], table, everywhere
        return
    # Small integers are sorted by radix, in one pass.
    narrow = targets.astype(np.int16) if target_count <= 2**15 else targets
    order = np.argsort(narrow, kind="stable")
    ordered = table.combine_chunks().take(integer_array(order, pa.int64()))
    start = 0
    for target in used:
        end = start + int(counts[target])
        yield target, ordered.slice(start, end - start), everywhere[order[start:end]]
        start = end


def _as_told(column: pa.ChunkedArray, partitions: NDArray[np.int32]) -> NDArray[np.int32]:
    told = _combined(column.cast(pa.int32()))
    numbers = np.asarray(pc.fill_null(told, NO_KEY))
    given = ~np.asarray(told.is_null()) if told.null_count else np.ones(len(numbers), np.bool_)
    return np.where(given, numbers, partitions).astype(np.int32)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
