"""Compacted logs on a disk in memory, and what readers find in them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.log_on_memory_disk import LogOnMemoryDisk
from oncelog.log import Appended, LogConfig, PartitionLog
from oncelog.log.compaction import CleaningSync, CleaningWork
from oncelog.records import AbortedFilter, Codec, ControlType, Record, batches, build_batch, decode_batch

MAP_BYTES = 1024 * 1024
LOAD_FACTOR = 0.9


def compacted(**settings: object) -> LogConfig:
    """Settings of a topic whose segments are small and whose tombstones go at once."""
    return LogConfig(**{"is_compacted": True, "segment_bytes": 1000, "delete_retention_ms": 0, **settings})  # type: ignore[arg-type]


def steps(log: PartitionLog, map_bytes: int = MAP_BYTES) -> Iterator[None]:
    """Clean a log, one step of it at a time."""
    cleaning = log.compaction.begin(map_bytes, LOAD_FACTOR)
    for step in cleaning.steps() if cleaning is not None else ():
        match step:
            case CleaningWork(work):
                work()
            case CleaningSync(files):
                for file in files:
                    file.sync()
        yield


def clean(on: LogOnMemoryDisk, map_bytes: int = MAP_BYTES) -> bool:
    """Make a log durable and clean it once; whether there was anything to clean."""
    on.sync()
    was_dirty = on.log.compaction.dirt(on.clock.now_ms()) is not None
    for _ in steps(on.log, map_bytes):
        pass
    return was_dirty


def write(
    on: LogOnMemoryDisk,
    records: list[tuple[bytes | None, bytes | None]],
    *,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> int:
    """Append records, given as keys and values, in one batch; return the offset of the first."""
    made = [Record(key, value, (("h", key),), on.clock.now_ms()) for key, value in records]
    batch = build_batch(
        made,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
        codec=codec,
    )
    result = on.append(batch)
    assert isinstance(result, Appended), result
    return result.base_offset


def roll(on: LogOnMemoryDisk) -> None:
    """Begin another segment, as an append does when the active one is full."""
    on.log.files.roll(on.clock.now_ms())


def records_of(log: PartitionLog, offset: int | None = None, *, committed: bool) -> list[Record]:
    """What a consumer reads from an offset on. With `committed` it reads up to the last stable offset and leaves out what was
    aborted.
    """
    offset = log.log_start_offset if offset is None else offset
    limit = log.last_stable_offset if committed else log.high_watermark
    found: list[Record] = []
    first = offset
    while offset < limit:
        part = log.read(offset, 4000, limit)
        assert part.next_offset > offset or not part.data, "a read goes on"
        if not part.data:
            break
        aborted = log.aborted_transactions(offset, part.next_offset) if committed else ()
        drops = AbortedFilter((one.producer_id, one.first_offset) for one in aborted).drops
        for position, header in batches(part.data):
            if not drops(part.data, position, header) and not header.is_control:
                found += [record for record in decode_batch(part.data, position) if record.offset >= first]
        offset = part.next_offset
    return found


def latest_of(records: list[Record]) -> dict[bytes, Record]:
    """The last record of each key; a key whose last record is a tombstone is not there."""
    latest = {record.key: record for record in records if record.key is not None}
    return {key: record for key, record in latest.items() if record.value is not None}


__all__ = ["ControlType", "clean", "compacted", "latest_of", "records_of", "roll", "steps", "write"]
