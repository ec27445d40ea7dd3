"""A look at records of many lengths, many at once.

Only the way from one to the next is taken record by record. What begins each is put beside what begins the others, and is
read field by field of all of them.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat

from oncelog.records.columns import Columns, if_high
from oncelog.records.strides import deltas

LENGTH_BYTES_MAX = 2
"""The length of a record, and that of a value. A key's has one byte."""
TIMESTAMP_BYTES_MAX = 5
DELTA_BYTES_MAX = 3
KEY_BYTES_MAX = 63
WIDTH = 1 + LENGTH_BYTES_MAX + 1 + TIMESTAMP_BYTES_MAX + DELTA_BYTES_MAX + 1 + LENGTH_BYTES_MAX
"""The byte before a record, and what it has until its value where its key is empty or null."""


def look_at_many(body: bytes, position: int, number: int, count: int, *, has_keys: bool) -> tuple[int, int]:
    """How many of `count` records that begin at `position` are right, all or none, and where the last of them ends.

    Their offset deltas count from `number`, and none is behind the end of a period. The record before them has no headers.
    None does not say that one is wrong: one may have headers, or a field that is longer than those that are looked at here.
    """
    width = WIDTH + KEY_BYTES_MAX * has_keys
    try:
        heads, end = _heads(body, position, count, width)
        are_right = body[end - 1] == 0 and _are_right(Columns(heads, width, count), number)
    except IndexError:
        return 0, position
    return (count, end) if are_right else (0, position)


@cache
def _sizes() -> tuple[tuple[int, ...], ...]:
    """How many bytes a record has by the first two, which are or begin with its length. What no length begins with has no size.

    A length of one byte says the same whatever is behind it.
    """
    sizes = tuple(range(2 + (0x40 << 7)))
    of_one = tuple((1 + half,) * 256 for half in range(0x40))
    of_two = tuple(sizes[2 + half :: 0x40] for half in range(0x40))
    return tuple(row for of_even in of_one + of_two for row in (of_even, ()))


def _heads(body: bytes, position: int, count: int, width: int) -> tuple[bytes, int]:
    """What begins each record, from the byte before it on, and where the last one ends. Raises IndexError."""
    heads: list[bytes] = []
    sizes = _sizes()
    start = position - 1
    for _ in repeat(None, count):
        head = body[start : start + width]
        heads.append(head)
        start += sizes[head[1]][head[2]]
    # A record at the end of the body may be shorter than a head.
    for at in range(count - 1, -1, -1):
        if len(heads[at]) == width:
            break
        heads[at] = heads[at].ljust(width, b"\0")
    return b"".join(heads), start + 1


def _are_right(columns: Columns, number: int) -> bool:
    """Whether each record is as long as what it holds, and behind another one that ends without headers. Raises IndexError.

    Half of what the first byte of a length says is 63 at most, so that no sum here grows into the byte of another record.
    """
    ones = columns.ones
    low_bits = 0x3F * ones
    if columns.next() != 0:
        return False
    length = columns.next()
    length_last = columns.next_of(if_high(length, ones))
    before = columns.places
    # The attributes of a record mean nothing yet, and Kafka takes any.
    columns.pass_over()
    if not (_are_timestamps(columns) and _are_deltas(columns, number)):
        return False
    key = columns.next()
    if key != ones:
        if if_high(key, ones) or not _are_even_or_null(key, ones):
            return False
        columns.skip(key >> 1 & low_bits)
    value = columns.next()
    value_last = columns.next_of(if_high(value, ones))
    if if_high(value_last, ones) or not _are_even_or_null(value, ones):
        return False
    held = columns.places - before + (value >> 1 & low_bits) + ones
    return held & low_bits == length >> 1 & low_bits and (held >> 6 & 3 * ones) + value_last == length_last


def _are_timestamps(columns: Columns) -> bool:
    going_on = if_high(columns.next(), columns.ones)
    for _ in range(TIMESTAMP_BYTES_MAX - 1):
        if not going_on:
            break
        going_on = if_high(columns.next_of(going_on), columns.ones)
    return not going_on


def _are_deltas(columns: Columns, number: int) -> bool:
    going_on = 0xFF * columns.ones
    expected = deltas(number, columns.count)
    for column in expected:
        found = columns.next_of(going_on)
        if found != int.from_bytes(column):
            return False
        going_on = if_high(found, columns.ones)
    return bool(expected)


def _are_even_or_null(lengths: int, ones: int) -> bool:
    """Whether no length is negative, but for -1, whose varint is 1."""
    odd = lengths & ones
    return lengths & 0xFF * odd == odd
