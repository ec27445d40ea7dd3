"""One segment: a file of batches, and the indexes into it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.environment import Disk, File, Share
from oncelog.log.config import LONG_MAX, LogConfig
from oncelog.log.index_files import NO_TIMESTAMP, OffsetIndex
from oncelog.log.names import DELETED, LOG, offset_name
from oncelog.log.outcome import DamagedLogError, LogSlice
from oncelog.log.scan import Scan, ScannedBatch, fault_in
from oncelog.log.segment_indexes import SegmentIndexes
from oncelog.records import HEADER_BYTES, BatchHeader, CorruptBatchError, read_header
from oncelog.records.batch import MAGIC

logger = logging.getLogger("oncelog.log")

RELATIVE_OFFSET_MAX = 2**31 - 1
WALK_BYTES = 8192
WRITE_BACK_BYTES = 1024 * 1024
"""So much is worth a call: less is written back by the sync itself about as fast."""


class BatchPosition(NamedTuple):
    """A batch and where it is in its segment."""

    position: int
    header: BatchHeader


class Segment:
    """From the position `trusted_from` on, every batch was checked or written by this process.

    What comes before it is checked whenever it is read.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_file",
        "_first_timestamp_ms",
        "_written_back_bytes",
        "are_times_checked",
        "base_offset",
        "created_ms",
        "gaps_below",
        "has_gaps_inside",
        "indexes",
        "path",
        "size_bytes",
        "trusted_from",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        names: Collection[str] = (),
        *,
        gaps_below: int = 0,
        has_gaps_inside: bool = False,
    ) -> None:
        """`names` are the files that are in the directory. Below `gaps_below` a cleaning may have taken offsets between batches.

        `has_gaps_inside`: offsets may be missing between batches of this file, wherever it is, for they came from a leader whose
        log was cleaned. Where a file ends the next one goes on all the same.
        """
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.gaps_below = gaps_below
        self.has_gaps_inside = has_gaps_inside
        self.indexes = SegmentIndexes(disk, directory, base_offset, config, names)
        name = offset_name(base_offset, LOG)
        self.path = f"{directory}/{name}"
        exists = name in names
        self._file: File | None = None
        self.size_bytes = 0
        if exists:
            file = disk.open(self.path)
            self.size_bytes = file.size_bytes
            file.close()
        self.trusted_from = self._written_back_bytes = self.size_bytes
        self._first_timestamp_ms: int | None = None
        self.are_times_checked = not exists

    @property
    def file(self) -> File:
        """The file of batches, opened when it is first needed."""
        if self._file is None:
            self._file = self._disk.open(self.path, create=self.size_bytes == 0)
        return self._file

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, NO_TIMESTAMP without one, and the last offset of the first batch that has it."""
        return self.indexes.max_timestamp

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch; NO_TIMESTAMP if there is none."""
        if self._first_timestamp_ms is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            try:
                self._first_timestamp_ms = read_header(self.file.read(0, HEADER_BYTES)).max_timestamp_ms
            except CorruptBatchError as error:
                raise self.damaged(0, self.base_offset, str(error)) from error
        return self._first_timestamp_ms

    def append(
        self,
        chunks: Sequence[Buffer],
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        share: Share = Share.ALL,
    ) -> None:
        """Write one batch, given in chunks, at the end."""
        position = self.size_bytes
        (self._file or self.file).append(chunks, share)
        if position == 0:
            self._first_timestamp_ms = max_timestamp_ms
        self.indexes.note(position, size_bytes, last_offset, max_timestamp_ms)
        self.size_bytes = position + size_bytes

    def append_all(self, data: Buffer, headers: Sequence[BatchHeader], share: Share) -> None:
        """Write batches, which are `data` and nothing else, at the end: all of them or, if there is no room, none."""
        (self._file or self.file).append([data], share)
        if self.size_bytes == 0:
            self._first_timestamp_ms = headers[0].max_timestamp_ms
        for header in headers:
            self.indexes.note(self.size_bytes, header.size_bytes, header.last_offset, header.max_timestamp_ms)
            self.size_bytes += header.size_bytes

    def write_back(self) -> None:
        """Begin to bring batches to the medium, once there are enough of them: the sync that will come has less to do."""
        start, size_bytes = self._written_back_bytes, self.size_bytes - self._written_back_bytes
        if size_bytes >= WRITE_BACK_BYTES:
            self._written_back_bytes = self.size_bytes
            self._disk.in_background(partial(self.file.write_back, start, size_bytes), lambda _: None)

    def should_roll(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int, config: LogConfig, jitter_ms: int
    ) -> bool:
        """True if a batch of `size_bytes` has to go to a new segment."""
        if self.size_bytes + size_bytes > config.segment_bytes:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if self.size_bytes >= self.indexes.full_from_bytes and self.indexes.are_full:
            return True
        if self.size_bytes == 0:
            return False
        first_ms = self._first_timestamp_ms
        if first_ms is None:
            first_ms = self.first_timestamp_ms
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self.created_ms
        return waited_ms > config.roll_ms - jitter_ms

    def position_of(self, offset: int) -> BatchPosition | None:
        """The batch that contains `offset`, or the first one after it; None if the segment ends before it."""
        entry = self._usable_index().floor(offset)
        if entry is not None and not self.is_entry_true(entry):
            self.rebuild_indexes()
            entry = self.indexes.offsets.floor(offset)
        for found in self._walk(0 if entry is None else entry[1]):
            if found.header.last_offset >= offset:
                return found
        return None

    def position_before(self, offset: int) -> int:
        """The batch that contains `offset` is not before this position. It reads nothing."""
        entry = self.indexes.offsets.floor(offset) if self.indexes.offsets.is_loaded else None
        return 0 if entry is None else entry[1]

    def position_after(self, offset: int | None) -> int:
        """The batches below `offset` end at this position or before it; None means all of them. It reads nothing."""
        if offset is None or not self.indexes.offsets.is_loaded:
            return self.size_bytes
        position = self.indexes.offsets.ceiling_position(offset)
        return self.size_bytes if position is None else position

    def is_followed_by(self, end_offset: int, next_offset: int) -> bool:
        """True if the file at `next_offset` may follow this one, whose last batch ends at `end_offset`.

        A cleaning keeps the batch that reaches the end of a file, so files meet. A replica's files may be Apache Kafka's, which
        keeps no such batch. No file reaches further than RELATIVE_OFFSET_MAX: if the next one begins beyond that, a leader's gap
        is between them.
        """
        if end_offset == next_offset or not self.has_gaps_inside:
            return end_offset == next_offset
        if next_offset - self.base_offset > RELATIVE_OFFSET_MAX + 1:
            return end_offset < next_offset
        return end_offset < next_offset <= self.gaps_below

    def read(
        self,
        position: int,
        size_bytes_max: int,
        limit_offset: int,
        end_offset: int,
        offset: int,
        leader_epoch_max: int,
    ) -> LogSlice:
        """Whole batches from `position`, below `limit_offset`: as many as fit, but at least one if there is one.

        `end_offset` is that of the segment; the first batch has `offset`, or in a log with gaps follows it. Raises DiskError
        if what is on the disk is not what was written.
        """
        size_left = self.size_bytes - position
        if limit_offset >= end_offset and size_left <= size_bytes_max:
            data = self.file.read(position, size_left)
            found = LogSlice(data, end_offset)
        else:
            found = self._cut(position, min(size_left, max(size_bytes_max, HEADER_BYTES)), limit_offset)
        if position < self.trusted_from:
            fault = fault_in(
                found.data,
                position,
                offset,
                end_offset=end_offset,
                leader_epoch_max=leader_epoch_max,
                gaps_below=self._gaps_inside_below,
            )
            if fault is not None:
                raise self.damaged(fault.position, fault.offset, fault.reason)
        return found

    def scan(self, position: int, next_offset: int, *, check_crc: bool = True, is_next: bool = False) -> Scan:
        """`is_next`: the batch before `position` ends at `next_offset`."""
        return Scan(
            self.file if self.size_bytes else None,
            position,
            self.size_bytes,
            next_offset,
            self.base_offset + RELATIVE_OFFSET_MAX,
            check_crc=check_crc,
            gaps_below=self._gaps_inside_below,
            is_next=is_next,
        )

    def has_batch_below(self, position: int, offset: int) -> bool:
        """True if a whole batch at this position says that its offset is below `offset`."""
        batch = next(iter(Scan(self.file, position, self.size_bytes, 0)), None)
        return batch is not None and batch.header.base_offset < offset

    @property
    def _gaps_inside_below(self) -> int:
        return LONG_MAX if self.has_gaps_inside else self.gaps_below

    def index_position(self, offset: int) -> int:
        """The position of a batch before `offset` from which the file can be read; nothing is changed."""
        entry = self.indexes.offsets.floor(offset - 1)
        return entry[1] if entry is not None and 0 < entry[1] < self.size_bytes and self.is_entry_true(entry) else 0

    def index_start(self, offset: int) -> int:
        """Drop the index entries from `offset` on; return the position from which on batches are to be noted again."""
        position = self.indexes.restart(offset, self.size_bytes, self.is_entry_true)
        self._note_times_below(position)
        return position

    def _note_times_below(self, position: int) -> None:
        """Look for later timestamps behind the last entry of the time index: neither index is synced before its segment is full,
        and of this one a power cut may have taken more.
        """
        indexes = self.indexes
        entry = indexes.offsets.floor(indexes.max_timestamp[1])
        start = 0 if entry is None else entry[1]
        if start >= position:
            return
        for batch in self.scan(start, self.base_offset, check_crc=False):
            if batch.position >= position:
                return
            indexes.note_time(batch.header.last_offset, batch.header.max_timestamp_ms)

    def rebuild_indexes(self) -> None:
        """Make both indexes anew from the batches. Raises DiskError if there are bytes that are no batch."""
        logger.warning("the indexes of %s are made anew, for they are missing or damaged", self.path)
        scan = self.scan(self.index_start(self.base_offset), self.base_offset)
        for batch in scan:
            header = batch.header
            self.indexes.note(batch.position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
        self.indexes.note_latest()
        if scan.fault is not None:
            raise self.damaged(scan.fault.position, scan.fault.offset, scan.fault.reason)

    def seal(self) -> list[File]:
        """Write the last time index entry; return the files that are to be made durable."""
        return [self.file, *self.indexes.seal()]

    def end_below(self, offset: int) -> tuple[int, int]:
        """The end of the last batch that ends at `offset` or before it: the offset and the position.

        It may be well below `offset`: a cleaning may have left a gap in front of the next batch. A start knows of no offset that is
        in no batch, so the log ends there.
        """
        end_offset, position = self.base_offset, 0
        for found in self._walk(self.index_position(offset)):
            if found.header.last_offset >= offset:
                break
            end_offset, position = found.header.next_offset, found.position + found.header.size_bytes
        return end_offset, position

    def truncate_to(self, offset: int) -> int:
        """Cut off the batch that contains `offset` and what follows it; return where the segment ends now."""
        end_offset, position = self.end_below(offset)
        if position < self.size_bytes:
            self.indexes.transactions.truncate(end_offset)
            noted_from = self.index_start(end_offset)
            self.cut(position)
            for found in self._walk(noted_from):
                header = found.header
                self.indexes.note(found.position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
        return end_offset

    def cut(self, position: int) -> None:
        """Cut off the bytes from `position` on, and block until that is durable.

        A power cut could bring sectors of them back among what is written in their place, and make a batch of both. It could
        bring back index entries, too, and the log would seem to have lost what they are about.
        """
        self.file.truncate(position)
        self.file.sync()
        self.indexes.sync()
        self.size_bytes = position
        self.trusted_from = min(self.trusted_from, position)
        self._written_back_bytes = min(self._written_back_bytes, position)
        if position == 0:
            self._first_timestamp_ms = None

    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path)

    def close(self) -> None:
        """Close the files until they are needed again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.indexes.close()

    def continue_in(self, directory: str) -> None:
        """Go on in copies of the files. What another disk makes of them is checked when it is read."""
        self.close()
        self._directory = directory
        self.path = f"{directory}/{offset_name(self.base_offset, LOG)}"
        self.indexes.continue_in(directory)
        self.trusted_from = self.size_bytes

    def rename_deleted(self) -> list[str]:
        """Rename the files as deleted; return the new paths. Reading goes on where a file is open."""
        paths = []
        if self._disk.exists(self.path):
            paths.append(self.path + DELETED)
            self._disk.rename(self.path, paths[0])
            self.path = paths[0]
        return paths + self.indexes.rename_deleted()

    def remove(self) -> None:
        """Remove the files."""
        self.close()
        self.indexes.remove()
        self._disk.remove(self.path)

    def damaged(self, position: int, offset: int, reason: str) -> DamagedLogError:
        return DamagedLogError(f"{self.path} is damaged at offset {offset}, byte {position}: {reason}")

    def batches_from(self, offset: int) -> Iterator[ScannedBatch]:
        """The batches from the one that contains `offset` on, each checked. Raises DiskError where one is damaged."""
        start = self.position_of(offset)
        if start is None:
            return
        if start.header.base_offset > max(offset, self._gaps_inside_below):
            raise self.damaged(start.position, offset, f"the offset is {start.header.base_offset}")
        scan = self.scan(start.position, start.header.base_offset)
        yield from scan
        if scan.fault is not None:
            raise self.damaged(scan.fault.position, scan.fault.offset, scan.fault.reason)

    def _usable_index(self) -> OffsetIndex:
        """The offset index, made anew if it is missing or makes no sense."""
        index = self.indexes.offsets
        if not index.is_loaded:
            is_missing = self.indexes.are_missing(self.trusted_from) and index.file.count == 0
            if is_missing or not index.is_sane(self.size_bytes):
                self.rebuild_indexes()
        return index

    def is_entry_true(self, entry: tuple[int, int]) -> bool:
        """True if the batch that the entry points at is the one it names."""
        last_offset, position = entry
        try:
            header = read_header(self.file.read(position, HEADER_BYTES))
        except CorruptBatchError:
            return False
        return header.magic == MAGIC and header.last_offset == last_offset

    def _walk(self, position: int) -> Iterator[BatchPosition]:
        """The batches from `position` on, by their headers alone. One whose offset has become smaller would be passed over."""
        data, start, next_offset = b"", position, self.base_offset
        while position < self.size_bytes:
            at = position - start
            if at + HEADER_BYTES > len(data):
                data, start, at = self.file.read(position, WALK_BYTES), position, 0
            if at + HEADER_BYTES > len(data):
                raise self.damaged(position, self.base_offset, "the file ends inside a batch header")
            header = read_header(data, at)
            end = position + header.size_bytes
            if header.magic != MAGIC or header.size_bytes < HEADER_BYTES or end > self.size_bytes:
                raise self.damaged(position, header.base_offset, "no batch header")
            if header.base_offset < next_offset:
                raise self.damaged(position, next_offset, f"the offset is {header.base_offset}")
            yield BatchPosition(position, header)
            position, next_offset = end, header.next_offset

    def _cut(self, position: int, size_bytes: int, limit_offset: int) -> LogSlice:
        """Whole batches from `position`, below `limit_offset`, in `size_bytes` unless the first one is larger."""
        index = self._usable_index()
        beyond = index.ceiling_position(limit_offset)
        if beyond is not None and beyond > position:
            size_bytes = min(size_bytes, beyond - position)
        data = self.file.read(position, size_bytes)
        end = 0
        if len(data) >= HEADER_BYTES:
            entry = index.floor_of_position(position + len(data) - HEADER_BYTES)
            if entry is not None and entry[1] > position and entry[0] < limit_offset:
                end = entry[1] - position
        return self._whole(data, position, end, limit_offset)

    def _whole(self, data: bytes, position: int, end: int, limit_offset: int) -> LogSlice:
        """The part of `data` that is whole batches below `limit_offset`; up to `end` it is known to be."""
        next_offset = -1
        while end + HEADER_BYTES <= len(data):
            header = read_header(data, end)
            if header.size_bytes < HEADER_BYTES:
                raise self.damaged(position + end, header.base_offset, "no batch header")
            if next_offset < 0:
                next_offset = header.base_offset
            if header.last_offset >= limit_offset:
                break
            if end + header.size_bytes > len(data):
                if end == 0:
                    return LogSlice(self.file.read(position, header.size_bytes), header.next_offset)
                break
            end += header.size_bytes
            next_offset = header.next_offset
        if next_offset < 0:
            raise self.damaged(position, self.base_offset, f"{len(data)} bytes are no batch header")
        return LogSlice(data if end == len(data) else memoryview(data)[:end], next_offset)
