"""A look at records of many lengths, some hundreds at once.

Only the way from one to the next is taken record by record. What begins each is put beside what begins the others, so that
the same place of each is one column. Columns are compared as bytes, or added up as lanes of one large integer.
"""

from __future__ import annotations

from itertools import repeat

from oncelog.records.strides import OFFSETS_PERIOD, SHORTEST_DELTAS, are_deltas, are_timestamps

ATTRIBUTES = 3
"""The column of the attributes. Before it are the two bytes that a length may have, and the last byte of the record before."""
VALUE_COLUMNS = 2
"""A value has as many bytes of length at most; a key has one."""
OTHER_BYTES = 4
"""Attributes, a byte each of the lengths of key and value, and the number of headers, which is 0."""
LANE_BYTES = 2
MANY_MAX = 512
"""So many records are looked at together, at most."""

_LOW, _HIGH = bytes(range(0x80)), bytes(range(0x80, 0x100))
_LOW_BITS = bytes(byte & 0x7F for byte in range(256))
_IF_HIGH = bytes(0xFF if byte >= 0x80 else 0 for byte in range(256))
_TWICE_THE_SIZE = bytes(0 if byte == 1 else byte & 0x7F for byte in range(256))
"""By the first byte of a length: the one of null is 1."""
_EVEN_OR_NULL = bytes((1, *range(0, 256, 2)))
_SIZES = tuple(1 + (byte >> 1) for byte in range(0x80))
_FIRST_SIZES = tuple(2 + ((byte & 0x7F) >> 1) for byte in range(256))
_SECOND_SIZES = tuple(byte << 6 for byte in range(256))
"""How large a record is by its length, that one counted in: of one byte, and what each of two adds."""
_ONES = int.from_bytes(b"\1\0" * MANY_MAX, "little")
_EVERY_OTHER_LANE = int.from_bytes(b"\xff\xff\0\0" * (MANY_MAX // 2), "little")


def look_at_many(
    body: bytes, position: int, number: int, count: int, timestamp_bytes: int, *, has_keys: bool
) -> tuple[int, int]:
    """How many of `count` records that begin at `position` are right, and where the last of them ends.

    Their offset deltas count from `number`, and none is behind the end of a period. The record before them has no headers, a
    timestamp of so many bytes, and a key or none. 0 does not say that one is wrong: they may be laid out otherwise.
    """
    delta_at = ATTRIBUTES + 1 + timestamp_bytes
    delta_bytes = 1 + (number >= SHORTEST_DELTAS) + (number >= OFFSETS_PERIOD)
    key_at = delta_at + delta_bytes
    width = key_at + 1 + VALUE_COLUMNS
    cut = _heads_with_keys if has_keys else _heads
    try:
        heads, end = cut(body, position, count, key_at - ATTRIBUTES)
        if not are_timestamps(heads, ATTRIBUTES + 1, delta_at - 1, width, count):
            asked, count = count, _with_such_timestamps(heads, delta_at - 1, width)
            if count < asked // 4:
                return 0, position
            heads, end = cut(body, position, count, key_at - ATTRIBUTES)
        is_right = (
            len(heads) == width * count
            and body[end - 1] == 0
            and (has_keys or heads[key_at::width] == b"\1" * count)
            and are_deltas(heads, delta_at, delta_bytes, width, number, count)
            and _are_lengths(heads, key_at, width, timestamp_bytes + delta_bytes, end - position)
        )
    except IndexError:
        return 0, position
    return (count, end) if is_right else (0, position)


def _with_such_timestamps(heads: bytes, last: int, width: int) -> int:
    """How many of the first records have timestamps that go on until the byte at `last`, and end there."""
    ends = heads[last::width]
    count = len(ends) - len(ends.lstrip(_LOW))
    for at in range(ATTRIBUTES + 1, last):
        column = heads[at::width][:count]
        count = len(column) - len(column.lstrip(_HIGH))
    return count


def _heads(body: bytes, position: int, count: int, key_at: int) -> tuple[bytes, int]:
    """What begins each record, and where the last one ends. The key is null: its length is followed by that of the value."""
    heads: list[bytes] = []
    append = heads.append
    sizes, first_sizes, second_sizes = _SIZES, _FIRST_SIZES, _SECOND_SIZES
    end_if_one = 1 + key_at + 1 + VALUE_COLUMNS
    end_if_two = end_if_one + 1
    for _ in repeat(None, count):
        byte = body[position]
        if byte < 0x80:
            append(body[position - 2 : position + end_if_one])
            position += sizes[byte]
        else:
            append(head := body[position - 1 : position + end_if_two])
            position += first_sizes[byte] + second_sizes[head[2]]
    return b"".join(heads), position


def _heads_with_keys(body: bytes, position: int, count: int, key_at: int) -> tuple[bytes, int]:
    """The same where keys lie between the two lengths.

    The way is written out here once more: a call for each record takes a fifth as long as all of it.
    """
    heads: list[bytes] = []
    append = heads.append
    sizes, first_sizes, second_sizes = _SIZES, _FIRST_SIZES, _SECOND_SIZES
    end_if_one = 1 + key_at + 1
    end_if_two = end_if_one + 1
    for _ in repeat(None, count):
        byte = body[position]
        if byte < 0x80:
            append(head := body[position - 2 : position + end_if_one])
            value_at = position + end_if_one + (head[-1] >> 1)
            position += sizes[byte]
        else:
            append(head := body[position - 1 : position + end_if_two])
            value_at = position + end_if_two + (head[-1] >> 1)
            position += first_sizes[byte] + second_sizes[head[2]]
        append(body[value_at : value_at + VALUE_COLUMNS])
    return b"".join(heads), position


def _are_lengths(heads: bytes, key_at: int, width: int, field_bytes: int, all_bytes: int) -> bool:
    """Whether each record is as long as what it holds, and behind another one that ends without headers.

    `field_bytes` is how long timestamp and offset delta are, and `all_bytes` how long all records are.
    """
    before, first, second = (heads[at::width] for at in range(ATTRIBUTES))
    key, value_first, value_second = (heads[at::width] for at in range(key_at, width))
    if not (second.isascii() and key.isascii()) or (key + value_first).translate(None, _EVEN_OR_NULL):
        return False
    count = len(first)
    ones = _ONES >> 8 * LANE_BYTES * (MANY_MAX - count)
    has_two, value_has_two = first.translate(_IF_HIGH), value_first.translate(_IF_HIGH)
    are_two, values_are_two = _lanes(has_two), _lanes(value_has_two)
    if _lanes(before) & are_two:
        return False
    last = _lanes(second)
    last_of_two, value_last_of_two = last & are_two, _lanes(value_second) & values_are_two
    twice = _lanes(first.translate(_LOW_BITS)) + (last_of_two << 7) + (last ^ last_of_two)
    twice_held = _lanes(key.translate(_TWICE_THE_SIZE)) + _lanes(value_first.translate(_TWICE_THE_SIZE))
    twice_held += (value_last_of_two << 7) + (values_are_two & (ones << 1)) + 2 * (OTHER_BYTES + field_bytes) * ones
    # Behind a byte that is not 0 a length of one byte may look as if it had more, and is larger than it is.
    return twice == twice_held and _sum_of_lanes(twice) // 2 + count + has_two.count(0xFF) == all_bytes


def _lanes(column: bytes) -> int:
    """The bytes of a column, each in the lower half of a lane."""
    spread = bytearray(LANE_BYTES * len(column))
    spread[::LANE_BYTES] = column
    return int.from_bytes(spread, "little")


def _sum_of_lanes(lanes: int) -> int:
    """Two lanes and two lanes together hold what is less than 2^32: modulo 2^32 - 1 their number is their sum."""
    return ((lanes & _EVERY_OTHER_LANE) + (lanes >> 8 * LANE_BYTES & _EVERY_OTHER_LANE)) % 0xFFFF_FFFF
