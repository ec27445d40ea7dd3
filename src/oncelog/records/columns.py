"""The fields of many records, read one after the other, of all the records at once.

A column is a byte of each record. It is one large integer: columns are compared, masked and added up at the speed of the
machine. The mask of some of the records has all bits of their bytes.
"""

from __future__ import annotations

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
