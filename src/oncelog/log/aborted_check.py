"""Whether the transaction indexes of a log are those that its checkpoint was about; if not, they are made again.

Without its entry an aborted transaction would be taken for a committed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog.log.config import LONG_MAX
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.own_checkpoint import IndexDigest, LogDigest
from oncelog.log.producers import Producers
from oncelog.log.replaying import replay
from oncelog.log.segment import Segment
from oncelog.log.snapshots import Snapshots


def digest_of(segments: Iterable[Segment], offset: int, log_start_offset: int) -> LogDigest:
    """What the transaction indexes hold of markers below `offset`."""
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
