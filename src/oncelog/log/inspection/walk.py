"""Reading a segment that may be damaged: every whole batch, and the bytes between them.

A start stops at the first bytes that are no batch. Here the search goes on behind them, so that one damaged batch does not hide
the others. The CRC-32C does not cover base offset, length, leader epoch and magic: where the rest of a batch is whole, those are
known from its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oncelog.environment import File
from oncelog.log.scan import ScannedBatch
from oncelog.records import HEADER_BYTES, BatchHeader, RecordsError, crc32c, decode_batch, read_control, read_header
from oncelog.records.batch import LENGTH_PREFIX_BYTES, MAGIC, check_body


def problem_inside(batch: ScannedBatch, *, has_gaps: bool) -> str | None:
    """The fault of a batch's records; None if there is none. A batch without records only keeps its offsets."""
    header = batch.header
    begin = batch.position_in_data
    data = batch.data[begin : begin + header.size_bytes]
    try:
        if header.is_control:
            read_control(data)
        elif header.record_count == 0:
            return None if header.size_bytes == HEADER_BYTES else "a batch without records has bytes for them"
        elif header.record_count == header.last_offset_delta + 1:
            check_body(data, header)
        elif has_gaps:
            return _problem_of_compacted(data, header.base_offset, header.last_offset)
        else:
            return f"{header.record_count} records have {header.last_offset_delta + 1} offsets"
    except RecordsError as error:
        return str(error)
    return None


def _problem_of_compacted(data: bytes, first_offset: int, last_offset: int) -> str | None:
    """Compaction takes records away, and leaves the others where they were."""
    before = first_offset - 1
    for record in decode_batch(data):
        if not before < record.offset <= last_offset:
            return f"a record has offset {record.offset}, behind {before}"
        before = record.offset
    return None


CHUNK_BYTES = 1024 * 1024
MAGIC_AT = 16
CRC_FROM = 21
ATTRIBUTES_MASK = 0x7F
"""The attributes that mean something; the other bits are zero in every batch."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The bytes from `position` to `end_position` are not the batches with the offsets from `first_offset` to `next_offset`.

    `next_offset` is None where the segment ends with the damage. No bytes: batches are missing. No offsets: the bytes are too
    many. `healed` is the batch as it was written, where that is certain.
    """

    position: int
    end_position: int
    first_offset: int
    next_offset: int | None
    reason: str
    healed: bytes | None = None
    is_torn: bool = False
    """True if it looks like an append that a crash interrupted: a batch that ends too early, or zeros, and nothing behind."""
    expected_next: int | None = None
    """The end offset by the damaged batch's own header, if the header makes sense."""

    @property
    def size_bytes(self) -> int:
        return self.end_position - self.position


class SegmentWalk:
    """Yields the batches of a segment and the damages between them.

    `end_offset` is where the segment should end, if that is known; in one that `is_sealed` nothing is beyond it. Below
    `gaps_below` offsets may be missing between batches, as compaction leaves them.
    """

    def __init__(
        self,
        file: File,
        base_offset: int,
        *,
        end_offset: int | None = None,
        gaps_below: int = 0,
        is_sealed: bool = False,
    ) -> None:
        self._file = file
        self._end = file.size_bytes
        self._end_offset = end_offset
        self._gaps_below = gaps_below
        self._has_gaps = gaps_below > base_offset
        self._data, self._start = b"", 0
        self._is_sealed = is_sealed
        self.position = 0
        self.next_offset = base_offset

    def __iter__(self) -> Iterator[ScannedBatch | Damage]:
        while self.position < self._end:
            if self._is_sealed and self._end_offset is not None and self.next_offset >= self._end_offset:
                reason = f"the segment ends at offset {self._end_offset}: these bytes do not belong here"
                yield Damage(self.position, self._end, self.next_offset, self.next_offset, reason)
                self.position = self._end
                return
            header = self._whole(self.position, self.next_offset)
            if header is not None and self._is_next(header):
                yield self._batch(header)
                self.position += header.size_bytes
                self.next_offset = header.next_offset
                continue
            damage = self._damage(header)
            yield damage
            self.position = damage.end_position
            if damage.next_offset is not None:
                self.next_offset = damage.next_offset
        if self._end_offset is not None and self.next_offset < self._end_offset:
            if self.position > 0 or self._end == 0:
                yield Damage(self._end, self._end, self.next_offset, self._end_offset, "batches are missing")
            self.next_offset = self._end_offset

    def _batch(self, header: BatchHeader) -> ScannedBatch:
        at = self.position - self._start
        if at < 0 or at + header.size_bytes > len(self._data):
            self._data = self._file.read(self.position, max(CHUNK_BYTES, header.size_bytes))
            self._start, at = self.position, 0
        return ScannedBatch(self.position, header, self._data, at)

    def _header(self, position: int) -> BatchHeader | None:
        """The header at `position`, if the bytes can be one."""
        at = position - self._start
        if at < 0 or at + HEADER_BYTES > len(self._data):
            if position + HEADER_BYTES > self._end:
                return None
            self._data, self._start, at = self._file.read(position, CHUNK_BYTES), position, 0
            if len(self._data) < HEADER_BYTES:
                return None
        return read_header(self._data, at)

    def _fits(self, position: int, header: BatchHeader) -> bool:
        return (
            header.magic == MAGIC
            and header.size_bytes >= HEADER_BYTES
            and position + header.size_bytes <= self._end
            and header.attributes & ~ATTRIBUTES_MASK == 0
            and header.last_offset_delta >= 0
            and 0 <= header.record_count <= header.last_offset_delta + 1
            and header.base_offset >= 0
        )

    def _whole(self, position: int, least_offset: int | None) -> BatchHeader | None:
        """The header of the batch at `position`, if it is whole; with `least_offset` only if its offsets can be right."""
        header = self._header(position)
        if header is None or not self._fits(position, header):
            return None
        if least_offset is not None and position != self.position and not self._is_possible(header, least_offset):
            return None
        return header if self._crc(position + CRC_FROM, position + header.size_bytes) == header.crc else None

    def _is_possible(self, header: BatchHeader, least_offset: int) -> bool:
        return header.base_offset >= least_offset and (
            self._end_offset is None or header.next_offset <= self._end_offset
        )

    def _crc(self, position: int, end: int) -> int:
        at = position - self._start
        if at >= 0 and end - self._start <= len(self._data):
            return crc32c(memoryview(self._data)[at : end - self._start])
        crc = 0
        while position < end:
            data = self._file.read(position, min(CHUNK_BYTES, end - position))
            if not data:
                return -1
            crc = crc32c(data, crc)
            position += len(data)
        return crc

    def _is_next(self, header: BatchHeader) -> bool:
        if self._is_sealed and self._end_offset is not None and header.next_offset > self._end_offset:
            return False
        return header.base_offset == self.next_offset or self._is_gap(header)

    def _is_gap(self, header: BatchHeader) -> bool:
        """True if a whole batch may begin behind the expected offset, because compaction took the batches before it."""
        if not self.next_offset < header.base_offset <= self._gaps_below:
            return False
        return self._is_true(header, header.base_offset)

    def _is_true(self, header: BatchHeader, base_offset: int) -> bool:
        """True if the bytes behind a batch agree that it begins at `base_offset`."""
        end_offset = base_offset + header.last_offset_delta + 1
        following = self._following(header)
        if following is not None:
            return end_offset <= following.base_offset if self._has_gaps else end_offset == following.base_offset
        if self._end_offset is None:
            return base_offset >= self.next_offset
        return end_offset <= self._end_offset if self._has_gaps else end_offset == self._end_offset

    def _following(self, header: BatchHeader) -> BatchHeader | None:
        position = self.position + header.size_bytes
        return self._whole(position, None) if position < self._end else None

    def _damage(self, header: BatchHeader | None) -> Damage:
        if header is not None:
            return self._misplaced(header)
        return self._broken()

    def _misplaced(self, header: BatchHeader) -> Damage:
        """A batch that is whole but for its offset, or that follows missing ones, or that does not belong here."""
        position, expected = self.position, self.next_offset
        end = position + header.size_bytes
        is_later = header.base_offset > expected
        reason = f"the offset is {header.base_offset}, and {expected} is the next one"
        if not self._has_gaps and self._is_true(header, expected) and (is_later or self._is_confirmed(header)):
            healed = self._as_written(position, end, expected)
            return Damage(position, end, expected, expected + header.last_offset_delta + 1, reason, healed)
        if not is_later:
            return Damage(position, end, expected, expected, f"{reason}: these bytes do not belong here")
        following = self._following(header)
        if following is None:
            _, following = self._search(end, expected)
        next_offset = self._end_offset if following is None else following.base_offset
        if next_offset is not None and header.next_offset > next_offset:
            return Damage(position, end, expected, next_offset, reason)
        return Damage(position, position, expected, header.base_offset, "batches are missing")

    def _is_confirmed(self, header: BatchHeader) -> bool:
        """True if anything behind a batch tells where it ends."""
        return self._following(header) is not None or self._end_offset is not None

    def _broken(self) -> Damage:
        """Bytes that are no batch, up to the next one."""
        position, expected = self.position, self.next_offset
        header = self._header(position)
        reason = self._reason(header)
        is_plausible = header is not None and self._fits(position, header) and header.base_offset == expected
        own_end = None
        if is_plausible and header is not None and header.record_count == header.last_offset_delta + 1:
            own_end = header.next_offset
            found = self._whole(position + header.size_bytes, expected)
            if found is not None and (found.base_offset == own_end or self._has_gaps):
                end = position + header.size_bytes
                return self._healed(Damage(position, end, expected, found.base_offset, reason))
        next_position, following = self._search(position + 1, expected)
        if following is None:
            is_torn = self._is_torn(header, position)
            damage = Damage(
                position, self._end, expected, self._end_offset, reason, is_torn=is_torn, expected_next=own_end
            )
        else:
            damage = Damage(position, next_position, expected, self._offset_of(next_position, following), reason)
        return self._healed(damage)

    def _offset_of(self, position: int, header: BatchHeader) -> int:
        """The base offset of a batch behind damage. No CRC covers its own word for it, and the batches behind may know better."""
        said, count = header.base_offset, header.last_offset_delta + 1
        end_offset, is_sure = self._end_by_what_follows(position + header.size_bytes)
        if self._has_gaps or end_offset is None or end_offset == said + count or end_offset - count < self.next_offset:
            return said
        # A batch that leaves no offset to the damaged bytes is less to be believed than the one behind it.
        return end_offset - count if is_sure or said == self.next_offset else said

    def _end_by_what_follows(self, position: int) -> tuple[int | None, bool]:
        """The offset at which what is behind `position` begins, and whether something behind that agrees."""
        if position >= self._end:
            return self._end_offset, True
        following = self._whole(position, None)
        if following is None:
            return None, False
        behind = position + following.size_bytes
        after = self._whole(behind, None) if behind < self._end else None
        next_offset = self._end_offset if behind >= self._end else None if after is None else after.base_offset
        return following.base_offset, next_offset == following.next_offset

    def _reason(self, header: BatchHeader | None) -> str:
        if header is None:
            return f"{self._end - self.position} bytes are no batch header"
        if header.magic != MAGIC:
            return f"the format version is {header.magic}"
        if header.size_bytes < HEADER_BYTES or self.position + header.size_bytes > self._end:
            return f"a batch of {header.size_bytes} bytes does not fit"
        return "the CRC-32C is not that of the bytes"

    def _is_torn(self, header: BatchHeader | None, position: int) -> bool:
        if header is None or (header.magic == MAGIC and position + header.size_bytes > self._end):
            return True
        while position < self._end:
            data = self._file.read(position, CHUNK_BYTES)
            if data.count(0) != len(data):
                return False
            position += len(data)
        return True

    def _search(self, position: int, least_offset: int) -> tuple[int, BatchHeader | None]:
        """The first whole batch from `position` on whose offset is not below `least_offset`, and not that of bytes before."""
        magic = bytes((MAGIC,))
        while position + HEADER_BYTES <= self._end:
            data = self._file.read(position, CHUNK_BYTES)
            at = data.find(magic, MAGIC_AT)
            while at >= 0:
                candidate = position + at - MAGIC_AT
                header = self._candidate(data, at - MAGIC_AT, candidate, least_offset)
                if header is not None:
                    return candidate, header
                at = data.find(magic, at + 1)
            if len(data) < CHUNK_BYTES:
                break
            position += len(data) - HEADER_BYTES
        return self._end, None

    def _candidate(self, data: bytes, at: int, position: int, least_offset: int) -> BatchHeader | None:
        if at + HEADER_BYTES > len(data):
            return None
        header = read_header(data, at)
        if not self._fits(position, header) or not self._is_possible(header, least_offset):
            return None
        end = at + header.size_bytes
        if end <= len(data):
            crc = crc32c(memoryview(data)[at + CRC_FROM : end])
        else:
            crc = self._crc(position + CRC_FROM, position + header.size_bytes)
        return header if crc == header.crc else None

    def _healed(self, damage: Damage) -> Damage:
        """The same with the batch that was written, if all but the fields before the CRC is whole."""
        if damage.size_bytes < HEADER_BYTES:
            return damage
        header = read_header(self._file.read(damage.position, HEADER_BYTES))
        if self._crc(damage.position + CRC_FROM, damage.end_position) != header.crc:
            return damage
        own_next = damage.first_offset + header.last_offset_delta + 1
        if header.last_offset_delta < 0 or header.record_count > header.last_offset_delta + 1:
            return damage
        base_offset = damage.first_offset
        if self._has_gaps:
            base_offset = header.base_offset
            own_next = base_offset + header.last_offset_delta + 1
            if base_offset < damage.first_offset or (damage.next_offset is not None and own_next > damage.next_offset):
                return damage
        elif damage.next_offset is not None and own_next != damage.next_offset:
            return damage
        healed = self._as_written(damage.position, damage.end_position, base_offset)
        return Damage(damage.position, damage.end_position, damage.first_offset, own_next, damage.reason, healed)

    def _as_written(self, position: int, end: int, base_offset: int) -> bytes:
        data = bytearray(self._file.read(position, end - position))
        data[0:8] = base_offset.to_bytes(8, "big")
        data[8:12] = (end - position - LENGTH_PREFIX_BYTES).to_bytes(4, "big")
        data[MAGIC_AT] = MAGIC
        return bytes(data)
