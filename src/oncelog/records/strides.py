"""Fields of records that lie a fixed number of bytes apart. The bytes at one place of each are one slice, and slices are
compared at the speed of the machine.
"""

from __future__ import annotations

SHORTEST_DELTAS = 64
"""So many offset deltas have one byte."""
OFFSETS_PERIOD = 8192
"""So many have two at most, and the next ones have the same first two bytes again."""

_ALONE = bytes(2 * number & 0x7F for number in range(SHORTEST_DELTAS))
_FIRST_OF_64 = bytes(2 * number | 0x80 for number in range(SHORTEST_DELTAS))
FIRST = _FIRST_OF_64 * (OFFSETS_PERIOD // SHORTEST_DELTAS)
SECOND_AND_LAST = b"".join(bytes((byte,)) * SHORTEST_DELTAS for byte in range(OFFSETS_PERIOD // SHORTEST_DELTAS))
_SECOND_OF_THREE = b"".join(
    bytes((byte | 0x80,)) * SHORTEST_DELTAS for byte in range(OFFSETS_PERIOD // SHORTEST_DELTAS)
)
_FIRST_OF_ALL = _ALONE + FIRST[SHORTEST_DELTAS:]
_WITHOUT_HIGH_BIT = bytes(byte ^ 0x80 for byte in range(256))


def deltas(number: int, count: int) -> tuple[bytes, ...]:
    """The offset deltas that count from `number`: the first bytes of all, the second ones, and the third ones if there are.

    None is behind the end of a period. Where some have one byte, their second is 0. There are no columns for more than three.
    """
    period, slot = divmod(number, OFFSETS_PERIOD)
    slots = slice(slot, slot + count)
    if period == 0:
        return _FIRST_OF_ALL[slots], SECOND_AND_LAST[slots]
    if period < 0x80:
        return FIRST[slots], _SECOND_OF_THREE[slots], bytes((period,)) * count
    return ()


def are_deltas(data: bytes, at: int, width: int, stride: int, number: int, count: int) -> bool:
    """Whether the offset deltas that begin at every stride from `at` on count from `number`.

    Each has `width` bytes, and none is behind the end of a period.
    """
    size_bytes = stride * count
    columns = deltas(number, count)[:width]
    for place, column in enumerate(columns, at):
        if data[place : place + size_bytes : stride] != column:
            return False
    return len(columns) == width


def are_timestamps(data: bytes, first: int, last: int, stride: int, count: int) -> bool:
    """Whether all timestamps are as long as the one whose bytes are `first` to `last`: the bytes go on until there."""
    size_bytes = stride * count
    for at in range(first, last):
        if not data[at : at + size_bytes : stride].translate(_WITHOUT_HIGH_BIT).isascii():
            return False
    return data[last : last + size_bytes : stride].isascii()
