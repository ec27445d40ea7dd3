"""The fence record: which micro-batch of which query a transaction committed, kept as metadata of committed offsets.

A micro-batch may be given twice: after a crash Spark runs the last one again, and whether it was committed is only in
the log. A batch id alone would not do: another checkpoint counts from 0 again, and its first micro-batches would be
taken for old ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from oncelog.client.values import OffsetAndMetadata, TopicPartition
from oncelog.spark.offsets import Offsets

METADATA_CHARACTERS_MAX = 4096
"""Kafka's default of offset.metadata.max.bytes."""

FENCE_VERSION = 2

NAME_CHARACTERS_MAX = 200
"""The characters of a query's name that are kept. JSON may take 12 bytes for a character."""

RETENTION_MS_MIN = 60_000
"""The least that offsets.retention.minutes may be."""


class FenceError(Exception):
    """The log does not allow this micro-batch: running it, or skipping it, could lose or repeat records."""


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """A micro-batch that was committed.

    `offsets_digest` is the sha256 of its end offsets. `sequence` counts what was committed for the group, by whichever
    query: the highest is the newest. `watermark_ms` is the event-time watermark after the micro-batch; None for a query
    without state. `query_name` is shown in refusals; None where the query had no name.
    """

    query_id: str
    batch_id: int
    offsets_digest: str
    sequence: int
    watermark_ms: int | None = None
    query_name: str | None = None


class Role(Enum):
    """The meaning of the offset that carries a fence record."""

    INPUT = "input"
    """The input is read up to here."""
    LOWEST = "lowest"
    """Several sources read this partition, up to different offsets. This is the lowest of them."""
    CARRIER = "carrier"
    """The partition is the output's and only carries the record; the offset is the batch id."""


def to_metadata(record: FenceRecord, role: Role, topic_id: UUID | None = None) -> str:
    """`topic_id` is the topic's that the offset is of, where it is known."""
    fields: dict[str, object] = {
        "oncelog": FENCE_VERSION,
        "query": record.query_id,
        "batch": record.batch_id,
        "end": record.offsets_digest,
        "sequence": record.sequence,
        "watermark": record.watermark_ms,
        "role": role.value,
    }
    if record.query_name is not None:
        fields["name"] = _short(record.query_name)
    if topic_id is not None:
        fields["topic"] = str(topic_id)
    text = json.dumps(fields, separators=(",", ":"))
    assert len(text) <= METADATA_CHARACTERS_MAX
    return text


def parse_metadata(metadata: str) -> tuple[FenceRecord, Role] | None:
    """Read the metadata of a committed offset; None where it is somebody else's.

    Raises FenceError where another version of oncelog wrote it.
    """
    try:
        fields = json.loads(metadata)
        version = fields["oncelog"]
    except (ValueError, KeyError, TypeError):
        return None
    if version != FENCE_VERSION:
        raise FenceError(
            f"the group's fence record has version {version}, and this oncelog reads version {FENCE_VERSION}: use the "
            "oncelog that wrote it"
        )
    try:
        watermark_ms, name = fields["watermark"], fields.get("name")
        record = FenceRecord(
            str(fields["query"]),
            int(fields["batch"]),
            str(fields["end"]),
            int(fields["sequence"]),
            None if watermark_ms is None else int(watermark_ms),
            None if name is None else str(name),
        )
        return record, Role(fields["role"])
    except (ValueError, KeyError, TypeError):
        return None


def topic_id_of(metadata: str) -> UUID | None:
    """The topic that an offset with a fence record is of; None where the metadata does not say it."""
    try:
        return UUID(json.loads(metadata)["topic"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Verdict(Enum):
    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class FenceProgress:
    """The progress of a group on the sink's cluster: its newest fence record, and the offsets that carry it.

    `offsets` are the input's. `unclear` are partitions that several sources had read up to different offsets. Offsets
    that carry an older record are of partitions that are not read any more: they count no more. `expired` is the last
    record, or one before it, of a group whose offsets are gone.
    """

    newest: FenceRecord | None = None
    offsets: Offsets = field(default_factory=dict)
    unclear: frozenset[TopicPartition] = frozenset()
    expired: FenceRecord | None = None

    @property
    def last(self) -> FenceRecord | None:
        return self.expired if self.newest is None else self.newest

    @property
    def next_sequence(self) -> int:
        return 0 if self.last is None else self.last.sequence + 1


def progress_from(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> FenceProgress:
    """Raises FenceError where another version of oncelog committed."""
    found = {
        partition: (*parsed, entry.offset)
        for partition, entry in committed.items()
        if (parsed := parse_metadata(entry.metadata)) is not None
    }
    newest = max((record for record, _, _ in found.values()), key=lambda record: record.sequence, default=None)
    current = {partition: (role, offset) for partition, (record, role, offset) in found.items() if record == newest}
    return FenceProgress(
        newest,
        {partition: offset for partition, (role, offset) in current.items() if role is Role.INPUT},
        frozenset(partition for partition, (role, _) in current.items() if role is Role.LOWEST),
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that Spark asks for. `start` is None where neither plan nor checkpoint says it in Kafka offsets.

    `age_ms` is how long ago Spark has planned it. `query_name` is None where the query has no name.
    """

    query_id: str
    batch_id: int
    end_digest: str
    start_digest: str | None
    start: Offsets | None
    age_ms: float
    query_name: str | None = None


def decide(
    progress: FenceProgress, batch: Batch, retention_ms: Callable[[], float], *, trust_checkpoint: bool = False
) -> Verdict:
    """Decide to run or to skip a micro-batch. Raises FenceError when neither is safe.

    `retention_ms` returns how long a group's offsets are kept. `trust_checkpoint` runs where the log does not know the
    query, as the user's own decision.
    """
    last, newest = progress.last, progress.newest
    is_own = last is not None and last.query_id == batch.query_id
    if last is not None and is_own:
        verdict = _decide_own(last, batch)
        if newest is not None or verdict is Verdict.SKIP:
            return verdict
    if trust_checkpoint:
        return Verdict.RUN
    if newest is None:
        return _decide_unknown(batch, retention_ms, is_next=is_own)
    return _decide_foreign(progress, newest, batch)


def _decide_own(own: FenceRecord, batch: Batch) -> Verdict:
    """Spark repeats its last micro-batch or continues with the next one. Any other comes from another checkpoint."""
    if batch.batch_id > own.batch_id + 1:
        raise FenceError(
            f"micro-batch {batch.batch_id} is asked for, but the last one committed is {own.batch_id}: those between "
            "were done without this sink, or its group's offsets were changed"
        )
    if batch.batch_id == own.batch_id + 1:
        return Verdict.RUN
    if batch.batch_id == own.batch_id and batch.end_digest == own.offsets_digest:
        return Verdict.SKIP
    raise FenceError(
        f"micro-batch {batch.batch_id} is asked for, and the last one committed is {own.batch_id}, with other end offsets "
        "than the checkpoint has now; is the checkpoint an old copy? Start with a new checkpoint from the committed offsets"
    )


def _decide_unknown(batch: Batch, retention_ms: Callable[[], float], *, is_next: bool) -> Verdict:
    """Without a record only a first micro-batch runs, or the next after the last one that is known to be committed.

    Either only if its own record, had it been committed, cannot have expired.
    """
    if batch.batch_id > 0 and not is_next:
        raise FenceError(
            f"the query is at micro-batch {batch.batch_id}, but its group has no record of what was committed: the "
            "offsets expired (offsets.retention.minutes), were deleted, or this sink was not used before. Where another sink "
            "wrote until now, as that of Spark's Kafka connector, move the query as docs/spark.md says (From Spark's Kafka "
            "connector). If nothing was committed after the checkpoint was written, say trust_checkpoint=True (option "
            "trustCheckpoint) once"
        )
    if batch.age_ms >= RETENTION_MS_MIN and batch.age_ms >= retention_ms():
        raise FenceError(
            f"micro-batch {batch.batch_id} was planned so long ago that the group's record of it, had it been committed, "
            "may have expired (offsets.retention.minutes); if nothing of it is in the output, say trust_checkpoint=True "
            "(option trustCheckpoint) once"
        )
    return Verdict.RUN


def _decide_foreign(progress: FenceProgress, newest: FenceRecord, batch: Batch) -> Verdict:
    if batch.start_digest == newest.offsets_digest:
        return Verdict.RUN
    if batch.start is not None and _starts_where_committed(batch.start, progress):
        return Verdict.RUN
    before, now = _short(newest.query_name), _short(batch.query_name)
    named = "" if before is None else f"{before!r}, "
    raise FenceError(
        f"another query ({named}{newest.query_id}) committed for this group up to its micro-batch {newest.batch_id}, and "
        f"{'this one' if now is None else repr(now)} does not start at those offsets: records would be lost or repeated. "
        f"{_advice(before, now)}"
    )


def _short(query_name: str | None) -> str | None:
    return None if query_name is None else query_name[:NAME_CHARACTERS_MAX]


def _advice(before: str | None, now: str | None) -> str:
    """The advice where another query has committed. Queries of two names are two, or one that was renamed."""
    go_on = "start with startingOffsets=committed_offsets(...) of oncelog.spark"
    if before is not None and now is not None and before != now:
        return (
            "Two queries need a transactional id and a group each: flows of one sink get them with {query} in option "
            f"kafka.transactional.id. If this query takes the other's place, {go_on}"
        )
    return (
        f"If its checkpoint is lost, {go_on}. If the query is to write everything again, as after a full refresh, say "
        "trust_checkpoint=True (option trustCheckpoint) once. A second query needs another transactional id and group"
    )


def _starts_where_committed(start: Offsets, progress: FenceProgress) -> bool:
    """Partitions that were not committed are new: they may start anywhere."""
    shared = start.keys() & progress.offsets.keys()
    is_clear = not start.keys() & progress.unclear
    return is_clear and bool(shared) and all(start[partition] == progress.offsets[partition] for partition in shared)


def fence_metadata(
    record: FenceRecord,
    offsets: Mapping[TopicPartition, int],
    *,
    unclear: Collection[TopicPartition] = (),
    carrier: TopicPartition | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit with a micro-batch, each with the fence record. `carrier` is for an input without offsets."""
    ids = topic_ids or {}
    entries = {
        partition: OffsetAndMetadata(
            offset,
            to_metadata(record, Role.LOWEST if partition in unclear else Role.INPUT, ids.get(partition.topic)),
        )
        for partition, offset in offsets.items()
    }
    if carrier is not None:
        entries[carrier] = OffsetAndMetadata(record.batch_id, to_metadata(record, Role.CARRIER))
    return entries
