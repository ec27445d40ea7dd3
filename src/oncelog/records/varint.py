"""The variable-length integers inside a record: zigzag, seven bits to a byte, least significant first.

They are not the unsigned ones of the flexible protocol messages.
"""

from __future__ import annotations

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
SMALL_VALUES = 1024


def varint(value: int) -> bytes:
    """A signed integer of at most 64 bits."""
    return _SMALL[value] if 0 <= value < SMALL_VALUES else _encoded(value)


def _encoded(value: int) -> bytes:
    output = bytearray()
    encoded = (value << 1) ^ (value >> 63)
    while encoded > 0x7F:
        output.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    output.append(encoded)
    return bytes(output)


def read_varint(data: bytes | memoryview, position: int, size_bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Read one integer; return it and the position after it.

    Raises IndexError at the end of the data, and ValueError for an integer of more bytes than the width allows.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    encoded = byte & 0x7F
    for shift in range(7, 7 * size_bytes_max, 7):
        byte = data[position]
        position += 1
        encoded |= (byte & 0x7F) << shift
        if byte < 0x80:
            width_mask = 0xFFFF_FFFF if size_bytes_max == VARINT_BYTES_MAX else 0xFFFF_FFFF_FFFF_FFFF
            encoded &= width_mask
            return (encoded >> 1) ^ -(encoded & 1), position
    raise ValueError(f"an integer of more than {size_bytes_max} bytes")


# Lengths and offset deltas are small as a rule, and there are six of them in each record.
_SMALL = [_encoded(value) for value in range(SMALL_VALUES)]
