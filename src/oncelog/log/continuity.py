"""Whether the segments of a log follow one another, from its start to its recovery point."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from oncelog.log.damage import DamagedLogError
from oncelog.log.names import LOG, offset_name
from oncelog.log.segment import Segment


def check_segments(segments: Sequence[Segment], directory: str, log_start_offset: int, recovery_point: int) -> None:
    """Raise DamagedLogError where one is missing or shortened. It reads a few bytes of each, and changes nothing.

    What comes after the recovery point is read as a whole if it was not closed, and may be torn.
    """
    if not segments:
        if log_start_offset < recovery_point:
            path = f"{directory}/{offset_name(log_start_offset, LOG)}"
            raise DamagedLogError(
                f"{path} is missing at offset {log_start_offset}: everything below {recovery_point} was durable"
            )
        return
    first = segments[0]
    if first.base_offset > log_start_offset and log_start_offset < recovery_point:
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
    position, end = segment.closed_end()
    if not segment.is_followed_by(end, next_base_offset):
        raise segment.damaged(position, end, f"it ends there, and the next file begins at offset {next_base_offset}")
