"""Checks of a log's files at a start: segments are whole and follow one another, transaction indexes are those of the checkpoint.

A transaction index that differs is made again from the batches: without its entry an aborted transaction would be taken for a
committed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from oncelog.log.checkpoints import IndexDigest, LogDigest
from oncelog.log.config import LONG_MAX
from oncelog.log.index_files import NO_TIMESTAMP
from oncelog.log.leader_epochs import check_epoch
from oncelog.log.names import LOG, offset_name
from oncelog.log.outcome import AbortedTransaction, DamagedLogError
from oncelog.log.producer_snapshots import Snapshots
from oncelog.log.producers import Producers, replay
from oncelog.log.segment import Segment


def check_segments(
    segments: Sequence[Segment], directory: str, log_start_offset: int, recovery_point: int, durable: int
) -> None:
    """Raise DamagedLogError where one is missing or shortened. It reads a few bytes of each, and changes nothing.

    What comes after the recovery point is read as a whole if it was not closed, and may be torn. Up to `durable`, which is there or
    beyond it, all of it was durable.
    """
    if not segments:
        if log_start_offset < durable:
            path = f"{directory}/{offset_name(log_start_offset, LOG)}"
            raise DamagedLogError(
                f"{path} is missing at offset {log_start_offset}: everything below {durable} was durable"
            )
        return
    first = segments[0]
    if first.base_offset > log_start_offset and log_start_offset < durable:
        path = f"{directory}/{offset_name(log_start_offset, LOG)}"
        raise DamagedLogError(
            f"{path}, or the file before it, is missing at offset {log_start_offset}: the log begins there, and its first "
            f"file is that of offset {first.base_offset}"
        )
    for segment, following in pairwise(segments):
        if following.base_offset > recovery_point:
            return
        _check_end(segment, following.base_offset)


def _check_end(segment: Segment, next_base_offset: int) -> None:
    position, end = _closed_end(segment)
    if not segment.is_followed_by(end, next_base_offset):
        raise segment.damaged(position, end, f"it ends there, and the next file begins at offset {next_base_offset}")


def _closed_end(segment: Segment) -> tuple[int, int]:
    """The end of a segment that another one follows: the position and the offset. Raises DamagedLogError.

    It reads headers, from the last entry of the offset index on if that entry is true, else all of them.
    """
    entry = segment.indexes.offsets.last_in_file()
    start = entry[1] if entry is not None and 0 < entry[1] < segment.size_bytes and segment.is_entry_true(entry) else 0
    scan = segment.scan(start, segment.base_offset, check_crc=False)
    for _ in scan:
        pass
    if scan.fault is not None:
        raise segment.damaged(scan.fault.position, scan.fault.offset, scan.fault.reason)
    if segment.gaps_below and entry is not None and start == 0 and scan.next_offset <= entry[0]:
        raise segment.damaged(scan.position, scan.next_offset, f"it ends there, and its index goes up to {entry[0]}")
    return scan.position, scan.next_offset


def resume(segment: Segment, leader_epoch_max: int) -> int | None:
    """Take up a segment that was closed whole; return the offset at which it ends, or None if it is not whole.

    Raises UnknownEpochError.
    """
    if segment.size_bytes == 0:
        segment.index_start(segment.base_offset)
        segment.indexes.transactions.replace_from(segment.base_offset, ())
        return segment.base_offset
    if not segment.indexes.offsets.is_sane(segment.size_bytes):
        return None
    entry = segment.indexes.offsets.last()
    position = 0
    if entry is not None:
        if not segment.is_entry_true(entry):
            return None
        position = entry[1]
    elif segment.indexes.are_missing(segment.size_bytes):
        return None
    scan = segment.scan(position, segment.base_offset, check_crc=False)
    latest_ms, size_bytes = NO_TIMESTAMP, 0
    for batch in scan:
        check_epoch(segment, batch.position, batch.header, leader_epoch_max)
        latest_ms = max(latest_ms, batch.header.max_timestamp_ms)
        size_bytes += batch.header.size_bytes
    segment.indexes.count_again(size_bytes)
    segment.indexes.offsets.unload()
    if scan.fault is not None or not segment.indexes.transactions.is_sane():
        return None
    if segment.indexes.times.last[0] == NO_TIMESTAMP:
        # Without timestamps there is nothing to index, and a segment that was closed has the file all the same.
        has_times = max(latest_ms, segment.first_timestamp_ms) != NO_TIMESTAMP
        if has_times or not segment.indexes.times.file.exists:
            return None
    segment.indexes.end_at(scan.next_offset)
    return scan.next_offset


def digest_of(segments: Iterable[Segment], offset: int, log_start_offset: int) -> LogDigest:
    """The digest of the transaction indexes' entries for markers below `offset`."""
    found = []
    for segment in segments:
        if segment.base_offset < offset:
            count, crc = segment.indexes.transactions.digest(offset)
            if count:
                found.append(IndexDigest(segment.base_offset, count, crc))
    return LogDigest(offset, log_start_offset, tuple(found))


def doubtful(segments: Sequence[Segment], expected: LogDigest) -> list[Segment]:
    """The segments whose transaction index is not what the checkpoint says."""
    by_base = {one.base_offset: (one.entry_count, one.crc) for one in expected.indexes}
    return [
        segment
        for segment in segments
        if segment.base_offset < expected.offset
        and segment.indexes.transactions.digest_in_file(expected.offset) != by_base.get(segment.base_offset, (0, 0))
    ]


def aborted_in(
    segment: Segment, segments: Sequence[Segment], snapshots: Snapshots, name: str, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions whose marker is in a segment and before `end_offset`, from the batches.

    Raises DamagedLogError; changes nothing.
    """
    producers = Producers(name)
    snapshot = snapshots.newest(segment.base_offset)
    start = segments[0].base_offset if snapshot is None else snapshot[0]
    producers.load(() if snapshot is None else snapshot[1])
    found: list[AbortedTransaction] = []
    ends = [*(one.base_offset for one in segments[1:]), LONG_MAX]
    for one, end in zip(segments, ends, strict=True):
        if one.base_offset > segment.base_offset:
            break
        if end <= start:
            continue
        # Not by way of the indexes: to make them anew is to read the end, which may be torn.
        scan = one.scan(one.index_position(start), one.base_offset)
        for batch in scan:
            if batch.header.base_offset < start:
                continue
            aborted = replay(producers, batch)
            if aborted is not None and one is segment:
                found.append(aborted)
            if batch.header.next_offset >= end_offset:
                # What follows may be torn.
                return found
        if scan.fault is not None:
            raise one.damaged(scan.fault.position, scan.fault.offset, scan.fault.reason)
    return found
