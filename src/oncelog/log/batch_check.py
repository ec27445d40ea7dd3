"""Whether what a disk gives back are batches as they were written."""

from __future__ import annotations

from typing_extensions import Buffer

from oncelog.log.config import EPOCH_MIN
from oncelog.log.scan import Fault
from oncelog.records import CorruptBatchError, batches, crc_is_valid


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
