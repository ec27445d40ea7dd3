"""One cleaning of one log: first the last offset of each key is learned, then the segments are written anew without the rest.

It goes in steps, and between two of them everybody else is served. Files are read and written on the thread that owns the log;
what takes the processor is done beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oncelog.environment import Disk, Syncable
from oncelog.log.compaction.batch_filter import BatchFilter, CleanedTransactions, HeaderCheck, KeptBatch, LastRecord
from oncelog.log.compaction.cleaned_segment import CleanedSegment, SegmentGroup, groups_of
from oncelog.log.compaction.dirt import Dirt
from oncelog.log.compaction.offset_map import OffsetMap
from oncelog.log.config import LogConfig
from oncelog.log.leader_epochs import LeaderEpochs
from oncelog.log.outcome import AbortedTransaction
from oncelog.log.scan import ScannedBatch
from oncelog.log.segment import Segment
from oncelog.records import RecordsError, read_control
from oncelog.records.kept import body_of, keyed_records

STEP_BYTES = 512 * 1024
POSITION_MAX = 2**31 - 1


class UncleanableError(Exception):
    """A log has batches that cannot be cleaned. It stays as it is."""


class CleaningWork(NamedTuple):
    """Work for another thread. It uses nothing but what belongs to the cleaning."""

    work: Callable[[], None]


class CleaningSync(NamedTuple):
    """Files to be made durable before the cleaning goes on."""

    files: Sequence[Syncable]


Step = CleaningWork | CleaningSync


class CleaningSource:
    """The parts of a log that a cleaning needs, as they were when it began."""

    __slots__ = ("aborted", "config", "directory", "epochs", "last_records", "segments")

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        segments: Sequence[tuple[Segment, int]],
        aborted: Sequence[AbortedTransaction],
        last_records: Mapping[int, LastRecord],
        epochs: LeaderEpochs,
    ) -> None:
        """`segments`, with the offsets at which they end, begin with the log and stop where it may not be cleaned."""
        self.directory = directory
        self.config = config
        self.segments = segments
        self.aborted = aborted
        self.last_records = last_records
        self.epochs = epochs


class Cleaning:
    """`replace` puts a cleaned segment, which is durable and closed, in the place of others; `finish` hears up to where the log
    is clean. Neither is called once the cleaning is dropped: so is whatever else changes the segments meanwhile.
    """

    def __init__(
        self,
        disk: Disk,
        source: CleaningSource,
        dirt: Dirt,
        last_offsets: OffsetMap,
        now_ms: int,
        replace: Callable[[Sequence[Segment], int], None],
        finish: Callable[[int], None],
    ) -> None:
        self._disk = disk
        self._source = source
        self._dirt = dirt
        self._last_offsets = last_offsets
        self._replace = replace
        self._finish = finish
        # Reading begins at the first dirty offset: of a transaction that ended before it, no marker would be met.
        self._mapped = CleanedTransactions(
            [one for one in source.aborted if one.last_offset >= dirt.first_dirty_offset]
        )
        self._transactions = CleanedTransactions(source.aborted)
        self._headers = HeaderCheck(source.epochs)
        self._filter = BatchFilter(
            last_offsets, self._transactions, source.last_records, now_ms, source.config.delete_retention_ms
        )
        self._is_map_full = False
        self._kept: list[KeptBatch] = []
        self._has_changed = False
        self._problem: RecordsError | None = None
        self._cleaned: CleanedSegment | None = None
        self.is_dropped = False
        self.bytes_before = self.bytes_written = 0

    def steps(self) -> Iterator[Step]:
        """Yields the work to do before the next step is asked for. `finish` follows the last step.

        Raises DiskError, and UncleanableError for batches that cannot be read.
        """
        yield from self._learn_last_offsets()
        if self.is_dropped:
            return
        end_offset = self._last_offsets.latest_offset + 1
        below = [(segment, end) for segment, end in self._source.segments if segment.base_offset < end_offset]
        for group in groups_of(below, self._source.config):
            yield from self._clean(group)
            if self.is_dropped:
                return
        self._finish(end_offset)

    def drop(self) -> list[str]:
        """Do nothing more; return the paths of what was written and is of no use. The work of the step under way may go on."""
        self.is_dropped = True
        cleaned, self._cleaned = self._cleaned, None
        return [] if cleaned is None else cleaned.drop()

    def _learn_last_offsets(self) -> Iterator[Step]:
        first_dirty, headers = self._dirt.first_dirty_offset, HeaderCheck(self._source.epochs)
        for segment, end in self._source.segments:
            if end <= first_dirty:
                continue
            for batches in self._read(segment, _place_of(segment, first_dirty), end, headers):
                yield CleaningWork(lambda batches=batches: self._attempt(self._learn, batches))  # type: ignore[misc]
                if self._is_over() or self._is_map_full:
                    return
            # What was between the last batch and the next segment is as clean as can be.
            self._last_offsets.latest_offset = end - 1

    def _clean(self, group: SegmentGroup) -> Iterator[Step]:
        """Write a group of segments anew, as one."""
        source = self._source
        base_offset = group.segments[0].base_offset
        cleaned = self._cleaned = CleanedSegment(self._disk, source.directory, base_offset, source.config)
        self._has_changed = len(group.segments) > 1
        self.bytes_before += sum(segment.size_bytes for segment in group.segments)
        for segment, end in zip(group.segments, group.ends, strict=True):
            for batches in self._read(segment, (0, segment.base_offset), end, self._headers):
                yield CleaningWork(lambda batches=batches: self._attempt(self._keep, batches, group.end_offset))  # type: ignore[misc]
                if self._is_over():
                    return
                self._write(cleaned)
        if not self._has_changed:
            self._cleaned = None
            cleaned.remove()
            return
        cleaned.index_aborted(self._transactions.indexed)
        self._transactions.indexed.clear()
        yield CleaningSync(cleaned.seal())
        if self.is_dropped:
            return
        self._cleaned = None
        cleaned.close()
        self._replace(group.segments, base_offset)

    def _read(
        self, segment: Segment, start: tuple[int, int], end_offset: int, headers: HeaderCheck
    ) -> Iterator[list[ScannedBatch]]:
        """The batches from `start` on, a position and the offset expected there, some at a time.

        Raises DiskError where one is damaged, or missing.
        """
        position, next_offset = start
        while position < segment.size_bytes:
            batches: list[ScannedBatch] = []
            scan = segment.scan(position, next_offset, is_next=True)
            began = position
            for batch in scan:
                problem = headers.problem(batch.header, end_offset)
                if problem is not None:
                    raise segment.damaged(batch.position, next_offset, problem)
                batches.append(batch)
                position = batch.position + batch.header.size_bytes
                next_offset = batch.header.next_offset
                if position - began >= STEP_BYTES:
                    break
            if scan.fault is not None:
                raise segment.damaged(scan.fault.position, scan.fault.offset, scan.fault.reason)
            yield batches
        if not segment.is_followed_by(next_offset, end_offset):
            raise segment.damaged(
                position, next_offset, f"it ends there, and the next file begins at offset {end_offset}"
            )

    def _write(self, cleaned: CleanedSegment) -> None:
        size_bytes = sum(batch.header.size_bytes for batch in self._kept)
        if cleaned.size_bytes + size_bytes > POSITION_MAX:
            raise UncleanableError("a segment would become larger than 2 GiB")
        cleaned.append(self._kept)
        self.bytes_written += size_bytes
        self._kept = []

    def _is_over(self) -> bool:
        """Raises UncleanableError for what has been met beside."""
        if self._problem is not None and not self.is_dropped:
            raise UncleanableError(str(self._problem)) from self._problem
        return self.is_dropped

    def _attempt(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except RecordsError as error:
            self._problem = error

    def _learn(self, batches: Sequence[ScannedBatch]) -> None:
        last_offsets, first_offset = self._last_offsets, self._dirt.first_dirty_offset
        for batch in batches:
            header = batch.header
            if header.is_control:
                self._mapped.take_marker(header, read_control(batch.data, batch.position_in_data))
            elif not self._mapped.take_batch(header):
                for record in keyed_records(header, body_of(header, batch.data, batch.position_in_data)):
                    offset = header.base_offset + record.offset_delta
                    if record.key is None or offset < first_offset:
                        continue
                    if last_offsets.is_full:
                        self._is_map_full = True
                        return
                    last_offsets.put(record.key, offset)
            if header.last_offset >= first_offset:
                last_offsets.latest_offset = header.last_offset

    def _keep(self, batches: Sequence[ScannedBatch], end_offset: int) -> None:
        kept: list[KeptBatch] = []
        for batch in batches:
            found = self._filter.kept(batch, end_offset)
            if found is not None:
                kept.append(found)
            if found is None or found.header != batch.header:
                self._has_changed = True
        self._kept = kept


def _place_of(segment: Segment, offset: int) -> tuple[int, int]:
    """The position of the batch that contains `offset`, or would, and the offset expected there."""
    if offset <= segment.base_offset:
        return 0, segment.base_offset
    found = segment.position_of(offset)
    return (segment.size_bytes, offset) if found is None else (found.position, found.header.base_offset)
