"""A look at records of many lengths, many at once.

Only the way from one to the next is taken record by record. What begins each is put beside what begins the others, and is
read field by field of all of them.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat

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
    """True if the offset deltas that begin at every stride from `at` on count from `number`.

    Each has `width` bytes, and none is behind the end of a period.
    """
    size_bytes = stride * count
    columns = deltas(number, count)[:width]
    for place, column in enumerate(columns, at):
        if data[place : place + size_bytes : stride] != column:
            return False
    return len(columns) == width


def are_timestamps(data: bytes, first: int, last: int, stride: int, count: int) -> bool:
    """True if all timestamps are as long as the one whose bytes are `first` to `last`: the bytes go on until there."""
    size_bytes = stride * count
    for at in range(first, last):
        if not data[at : at + size_bytes : stride].translate(_WITHOUT_HIGH_BIT).isascii():
            return False
    return data[last : last + size_bytes : stride].isascii()


MANY_MAX = 2048
"""So many records are read together, at most."""

_ONES = int.from_bytes(b"\1" * MANY_MAX)


class Columns:
    """Goes from field to field of `count` records. `heads` is what begins each, `width` bytes of it.

    Records whose fields were of other sizes so far have their next one at another place: each place has a mask.
    """

    __slots__ = ("_heads", "_masks", "_read", "_width", "count", "ones")

    def __init__(self, heads: bytes, width: int, count: int) -> None:
        self._heads = heads
        self._width = width
        self.count = count
        self.ones = _ONES >> 8 * (MANY_MAX - count)
        """The column of a 1 in each record. A number below 256 times that is the column of this number."""
        self._masks = {0: 0xFF * self.ones}
        self._read: dict[int, int] = {}

    @property
    def places(self) -> int:
        """The column of how many bytes are behind each record."""
        column = 0
        for place, mask in self._masks.items():
            column |= place * self.ones & mask
        return column

    def next(self) -> int:
        """The next byte of each record. Raises IndexError where a head has no more."""
        column, masks = 0, {}
        for place, mask in self._masks.items():
            column |= self._at(place) & mask
            masks[place + 1] = mask
        self._masks = masks
        return column

    def next_of(self, some: int) -> int:
        """The next byte of the records of a mask, and 0 for the others, which stay where they are. Raises IndexError."""
        if not some:
            return 0
        column = 0
        masks: dict[int, int] = {}
        for place, mask in self._masks.items():
            going = mask & some
            if going:
                column |= self._at(place) & going
                masks[place + 1] = masks.get(place + 1, 0) | going
            if going != mask:
                masks[place] = masks.get(place, 0) | mask ^ going
        self._masks = masks
        return column

    def pass_over(self) -> None:
        """Go one byte ahead in each record, whatever it is."""
        self._masks = {place + 1: mask for place, mask in self._masks.items()}

    def skip(self, sizes: int) -> None:
        """Go as many bytes ahead in each record as its column says."""
        column = sizes.to_bytes(self.count)
        masks: dict[int, int] = {}
        others = column
        while others:
            size = others[0]
            others = others.translate(None, bytes((size,)))
            of_size = int.from_bytes(column.translate(bytes(size) + b"\xff" + bytes(0xFF - size)))
            for place, mask in self._masks.items():
                if going := mask & of_size:
                    masks[place + size] = masks.get(place + size, 0) | going
        self._masks = masks

    def _at(self, place: int) -> int:
        """The bytes at a place of all heads. They are kept: each mask that comes to the place asks for them."""
        if place not in self._read:
            if place >= self._width:
                raise IndexError("a record has more before its value than its head")
            self._read[place] = int.from_bytes(self._heads[place :: self._width])
        return self._read[place]


def if_high(column: int, ones: int) -> int:
    """The mask of the records whose byte has its highest bit: of a varint, those that go on."""
    return 0xFF * (column >> 7 & ones)


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
    """The beginning of each record, from the byte before it on, and the end of the last. Raises IndexError."""
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
    """True if each record is as long as its content, and follows one that ends without headers. Raises IndexError.

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
    """True if no length is negative, but for -1, whose varint is 1."""
    odd = lengths & ones
    return lengths & 0xFF * odd == odd
