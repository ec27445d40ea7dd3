"""Fields of records that lie a fixed number of bytes apart. The bytes at one place of each are one slice, and slices are
compared at the speed of the machine.
"""

from __future__ import annotations

SHORTEST_DELTAS = 64
"""So many offset deltas have one byte."""
OFFSETS_PERIOD = 8192
"""So many have two at most, and the next ones have the same first two bytes again."""

ALONE = bytes(2 * number & 0x7F for number in range(SHORTEST_DELTAS))
_FIRST_OF_64 = bytes(2 * number | 0x80 for number in range(SHORTEST_DELTAS))
FIRST = _FIRST_OF_64 * (OFFSETS_PERIOD // SHORTEST_DELTAS)
SECOND_AND_LAST = b"".join(bytes((byte,)) * SHORTEST_DELTAS for byte in range(OFFSETS_PERIOD // SHORTEST_DELTAS))
SECOND_OF_THREE = b"".join(bytes((byte | 0x80,)) * SHORTEST_DELTAS for byte in range(OFFSETS_PERIOD // SHORTEST_DELTAS))
_WITHOUT_HIGH_BIT = bytes(byte ^ 0x80 for byte in range(256))


def are_deltas(data: bytes, at: int, width: int, stride: int, number: int, count: int) -> bool:
    """Whether the offset deltas that begin at every stride from `at` on count from `number`.

    Each has `width` bytes, and none is behind the end of a period.
    """
    size_bytes = stride * count
    slot = number % OFFSETS_PERIOD
    first = data[at : at + size_bytes : stride]
    if width == 1:
        return first == ALONE[number : number + count]
    second = data[at + 1 : at + 1 + size_bytes : stride]
    if first != FIRST[slot : slot + count]:
        return False
    if width == 2:
        return second == SECOND_AND_LAST[number : number + count]
    third = data[at + 2 : at + 2 + size_bytes : stride]
    is_short = width == 3 and number >> 13 < 0x80
    return is_short and second == SECOND_OF_THREE[slot : slot + count] and third == bytes((number >> 13,)) * count


def are_timestamps(data: bytes, first: int, last: int, stride: int, count: int) -> bool:
    """Whether all timestamps are as long as the one whose bytes are `first` to `last`: the bytes go on until there."""
    size_bytes = stride * count
    for at in range(first, last):
        if not data[at : at + size_bytes : stride].translate(_WITHOUT_HIGH_BIT).isascii():
            return False
    return data[last : last + size_bytes : stride].isascii()
