"""Reading a segment's batches one after the other, with a check of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import Buffer

from oncelog.environment import File
from oncelog.log.config import EPOCH_MIN, LONG_MAX
from oncelog.records import HEADER_BYTES, BatchHeader, CorruptBatchError, batches, crc32c, crc_is_valid, read_header
from oncelog.records.batch import CONTROL_BIT, CRC_FROM, LENGTH_PREFIX_BYTES, MAGIC
from oncelog.records.control import control_problem

CHUNK_BYTES = 1024 * 1024
HEADERS_CHUNK_BYTES = 64 * 1024
"""The chunk for a scan of headers alone; a start scans the last few of every log."""


class ScannedBatch(NamedTuple):
    """A batch at `position` of its segment, which is at `position_in_data` of `data`."""

    position: int
    header: BatchHeader
    data: bytes
    position_in_data: int


class Fault(NamedTuple):
    """The first bytes that are no batch: where they are, the offset expected there, and what is wrong."""

    position: int
    offset: int
    reason: str


class Scan:
    """Yields whole batches from `position` up to `end`; stops at the first fault, and then has it as `fault`.

    Without `check_crc` only the headers have to make sense, and of batches other than control batches `data` may hold
    no more than the header.
    """

    __slots__ = (
        "_check_crc",
        "_end",
        "_file",
        "_gaps_below",
        "_is_next",
        "_offset_max",
        "fault",
        "next_offset",
        "position",
    )

    def __init__(
        self,
        file: File | None,
        position: int,
        end: int,
        next_offset: int,
        offset_max: int = LONG_MAX,
        *,
        check_crc: bool = True,
        gaps_below: int = LONG_MAX,
        is_next: bool = False,
    ) -> None:
        """From `gaps_below` on each batch goes on where the one before ends: at the first one, that is `next_offset` if
        `is_next`, else it has that or a later one. None goes beyond `offset_max`.
        """
        self._file = file
        self._offset_max = offset_max
        self._gaps_below = gaps_below
        self._is_next = is_next or position == 0
        self._end = end
        self._check_crc = check_crc
        self.position = position
        self.next_offset = next_offset
        self.fault: Fault | None = None

    def __iter__(self) -> Iterator[ScannedBatch]:
        file, end, check_crc = self._file, self._end, self._check_crc
        if file is None:
            return
        data, view, start = b"", memoryview(b""), self.position
        skip_max = self._gaps_below if self._is_next else LONG_MAX
        chunk_bytes = CHUNK_BYTES if check_crc else HEADERS_CHUNK_BYTES
        while self.position < end:
            at = self.position - start
            if at + HEADER_BYTES > len(data):
                data, start, at = file.read(self.position, chunk_bytes), self.position, 0
                view = memoryview(data)
            header = self._header(data, at, skip_max=skip_max)
            if header is None:
                return
            skip_max = self._gaps_below
            size_bytes = header.batch_length + LENGTH_PREFIX_BYTES
            is_control = header.attributes & CONTROL_BIT
            if (check_crc or is_control) and at + size_bytes > len(data):
                data, start, at = file.read(self.position, max(CHUNK_BYTES, size_bytes)), self.position, 0
                view = memoryview(data)
            if check_crc:
                if at + size_bytes > len(data) or crc32c(view[at + CRC_FROM : at + size_bytes]) != header.crc:
                    self._stop("the CRC-32C is not that of the bytes")
                    return
                problem = control_problem(data, at) if is_control else None
                if problem is not None:
                    self._stop(problem)
                    return
            yield ScannedBatch(self.position, header, data, at)
            self.position += size_bytes
            self.next_offset = header.base_offset + header.last_offset_delta + 1

    def _header(self, data: bytes, at: int, *, skip_max: int) -> BatchHeader | None:
        """The next header, if it makes sense here. Most of what a start takes it takes here: nothing is looked up twice."""
        if at + HEADER_BYTES > len(data):
            self._stop(f"{len(data) - at} bytes are no batch header")
            return None
        header = read_header(data, at)
        base_offset, batch_length, magic, last_offset_delta = header[0], header[1], header[3], header[6]
        size_bytes = batch_length + LENGTH_PREFIX_BYTES
        if magic != MAGIC:
            self._stop(f"the format version is {magic}")
        elif size_bytes < HEADER_BYTES or self.position + size_bytes > self._end:
            self._stop(f"a batch of {size_bytes} bytes does not fit")
        elif (
            (base_offset != self.next_offset and (base_offset < self.next_offset or base_offset > skip_max))
            or last_offset_delta < 0
            or base_offset + last_offset_delta > self._offset_max
        ):
            self._stop(f"the offset is {base_offset}")
        else:
            return header
        return None

    def _stop(self, reason: str) -> None:
        self.fault = Fault(self.position, self.next_offset, reason)


def fault_in(
    data: Buffer, position: int, offset: int, *, end_offset: int, leader_epoch_max: int, gaps_below: int
) -> Fault | None:
    """The first fault in whole batches, which are read from `position` on for the one that contains `offset`.

    They end before `end_offset`. Below `gaps_below` offsets may be missing between them.
    """
    end, next_offset = 0, offset
    try:
        for at, header in batches(data):
            reason = None
            # The first batch may begin before the offset.
            is_next = header.base_offset == next_offset or (at == 0 and header.base_offset < next_offset)
            if not crc_is_valid(data, at, header):
                reason = "the CRC-32C is not that of the bytes"
            # What follows is not part of what the CRC covers.
            elif not EPOCH_MIN <= header.leader_epoch <= leader_epoch_max:
                reason = f"the leader epoch is {header.leader_epoch}, and there were {leader_epoch_max + 1}"
            elif not (
                (is_next or next_offset < header.base_offset <= gaps_below)
                and max(next_offset, header.base_offset) <= header.last_offset < end_offset
            ):
                reason = f"the offset is {header.base_offset}"
            if reason is not None:
                return Fault(position + at, next_offset, reason)
            end, next_offset = at + header.size_bytes, header.next_offset
    except CorruptBatchError as error:
        return Fault(position + end, next_offset, str(error))
    if end != memoryview(data).nbytes:
        return Fault(position + end, next_offset, "a batch is cut short")
    return None
