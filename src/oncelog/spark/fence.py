"""The fence record: which micro-batch of which query a transaction committed, kept as metadata of committed offsets.

A micro-batch may be given twice: after a crash Spark runs the last one again, and whether it was committed is only in
the log. A batch id alone would not do: another checkpoint counts from 0 again, and its first micro-batches would be
taken for old ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark.offsets import Offsets

METADATA_CHARACTERS_MAX = 4096
"""Kafka's default of offset.metadata.max.bytes."""

FENCE_VERSION = 1


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """The last micro-batch that was committed. `offsets_digest` is the sha256 of its end offsets."""

    query_id: str
    batch_id: int
    offsets_digest: str
    version: int = FENCE_VERSION

    def to_metadata(self) -> str:
        text = json.dumps(
            {"oncelog": self.version, "query": self.query_id, "batch": self.batch_id, "end": self.offsets_digest},
            separators=(",", ":"),
        )
        assert len(text) <= METADATA_CHARACTERS_MAX
        return text


def parse_fence(metadata: str) -> FenceRecord | None:
    """Read the metadata of a committed offset; None where it is somebody else's."""
    try:
        fields = json.loads(metadata)
        return FenceRecord(str(fields["query"]), int(fields["batch"]), str(fields["end"]), int(fields["oncelog"]))
    except (ValueError, KeyError, TypeError):
        return None


class Move(Enum):
    RUN = "run"
    SKIP = "skip"


class FenceError(Exception):
    """The log does not allow this micro-batch: running it, or skipping it, could lose or repeat records."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a group has committed on the sink's cluster: fence records, and the offsets they came with."""

    fences: tuple[FenceRecord, ...]
    offsets: Offsets

    def of_query(self, query_id: str) -> FenceRecord | None:
        own = [fence for fence in self.fences if fence.query_id == query_id]
        return max(own, key=lambda fence: fence.batch_id, default=None)


def progress_from(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> Progress:
    fences = {parse_fence(entry.metadata) for entry in committed.values()} - {None}
    offsets = {partition: entry.offset for partition, entry in committed.items() if parse_fence(entry.metadata)}
    return Progress(tuple(fence for fence in fences if fence is not None), offsets)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that Spark asks for. `start` is None where neither plan nor checkpoint says it in Kafka offsets."""

    query_id: str
    batch_id: int
    end_digest: str
    start_digest: str | None
    start: Offsets | None


def decide(progress: Progress, batch: Batch, *, trust_checkpoint: bool = False) -> Move:
    """Whether to run or to skip a micro-batch. Raises FenceError when neither is safe.

    `trust_checkpoint` runs where the log does not know the query, as the user's own decision.
    """
    own = progress.of_query(batch.query_id)
    if own is not None:
        return _decide_own(own, batch)
    if trust_checkpoint:
        return Move.RUN
    if not progress.fences:
        return _decide_unknown(batch)
    return _decide_foreign(progress, batch)


def _decide_own(own: FenceRecord, batch: Batch) -> Move:
    if batch.batch_id > own.batch_id + 1:
        raise FenceError(
            f"micro-batch {batch.batch_id} is asked for, but the last one committed is {own.batch_id}: those between "
            "were done without this sink, or its group's offsets were changed"
        )
    if batch.batch_id == own.batch_id and batch.end_digest != own.offsets_digest:
        raise FenceError(
            f"micro-batch {batch.batch_id} was committed with other end offsets than the checkpoint has now; is it an "
            "old copy? Start with a new checkpoint from the committed offsets"
        )
    return Move.SKIP if batch.batch_id <= own.batch_id else Move.RUN


def _decide_unknown(batch: Batch) -> Move:
    if batch.batch_id > 0:
        raise FenceError(
            f"the query is at micro-batch {batch.batch_id}, but its group has no record of what was committed: the "
            "offsets expired (offsets.retention.minutes), were deleted, or this sink was not used before. If nothing "
            "was committed after the checkpoint was written, say trust_checkpoint=True once"
        )
    return Move.RUN


def _decide_foreign(progress: Progress, batch: Batch) -> Move:
    continues = batch.start_digest in {fence.offsets_digest for fence in progress.fences}
    if continues or (batch.start is not None and _starts_where_committed(batch.start, progress.offsets)):
        return Move.RUN
    last = max(progress.fences, key=lambda fence: fence.batch_id)
    raise FenceError(
        f"another query ({last.query_id}) committed up to its micro-batch {last.batch_id}, and this one does not start "
        "at those offsets: records would be lost or repeated. Start with startingOffsets=committed_offsets(...) of "
        "oncelog.spark, use another transactional id and group, or say trust_checkpoint=True once"
    )


def _starts_where_committed(start: Offsets, committed: Offsets) -> bool:
    shared = start.keys() & committed.keys()
    return bool(shared) and all(start[partition] == committed[partition] for partition in shared)


def fence_metadata(
    record: FenceRecord, offsets: Mapping[TopicPartition, int], extra: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit with a micro-batch, each with the fence record; `extra` partitions carry the batch id."""
    metadata = record.to_metadata()
    entries = {partition: OffsetAndMetadata(offset, metadata) for partition, offset in offsets.items()}
    return {**entries, **{partition: OffsetAndMetadata(record.batch_id, metadata) for partition in extra}}
