"""The primitive fields inside the records of the internal topics, fixed and flexible.

The records of `__transaction_state` and `__consumer_offsets` are versioned structs that no API key carries, so the
message codec does not know them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from oncelog.wire import WireError, unsigned_varint

T = TypeVar("T")

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class FieldReader:
    """Reads fields one after the other. Every method raises WireError where the bytes end or are no such field."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int8(self) -> int:
        return self._fixed(_INT8)

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise WireError("a varint of more than five bytes")

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise WireError("null where a string is required")
        return text

    def nullable_string(self) -> str | None:
        size_bytes = self.int16()
        return None if size_bytes < 0 else self._text(size_bytes)

    def compact_string(self) -> str:
        size_bytes = self.unsigned_varint() - 1
        if size_bytes < 0:
            raise WireError("null where a string is required")
        return self._text(size_bytes)

    def nullable_compact_string(self) -> str | None:
        size_bytes = self.unsigned_varint() - 1
        return None if size_bytes < 0 else self._text(size_bytes)

    def sized_bytes(self) -> bytes:
        return self._bytes(self.int32())

    def compact_bytes(self) -> bytes:
        return self._bytes(self.unsigned_varint() - 1)

    def uuid(self) -> UUID:
        return UUID(bytes=self.raw(16))

    def compact_array(self, read: Callable[[], T]) -> tuple[T, ...]:
        count = self.unsigned_varint() - 1
        if count < 0:
            raise WireError("null where an array is required")
        return tuple(read() for _ in range(count))

    def tagged_fields(self) -> dict[int, bytes]:
        return {self.unsigned_varint(): self.raw(self.unsigned_varint()) for _ in range(self.unsigned_varint())}

    def raw(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end > len(self._data):
            raise WireError("a record of an internal topic ends early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def _fixed(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self._position)
        except struct.error as error:
            raise WireError("a record of an internal topic ends early") from error
        self._position += layout.size
        assert isinstance(value, int)
        return value

    def _bytes(self, size_bytes: int) -> bytes:
        if size_bytes < 0:
            raise WireError("null where bytes are required")
        return self.raw(size_bytes)

    def _text(self, size_bytes: int) -> str:
        try:
            return self.raw(size_bytes).decode()
        except UnicodeDecodeError as error:
            raise WireError("a string that is not UTF-8") from error


def string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def nullable_string(text: str | None) -> bytes:
    return _INT16.pack(-1) if text is None else string(text)


def sized_bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def compact_string(text: str) -> bytes:
    encoded = text.encode()
    return unsigned_varint(len(encoded) + 1) + encoded


def nullable_compact_string(text: str | None) -> bytes:
    return b"\0" if text is None else compact_string(text)


def compact_bytes(data: bytes) -> bytes:
    return unsigned_varint(len(data) + 1) + data


def compact_array(items: Iterable[bytes]) -> bytes:
    listed = list(items)
    return unsigned_varint(len(listed) + 1) + b"".join(listed)


def tagged_fields(fields: dict[int, bytes]) -> bytes:
    """`fields` has the bytes of each tag that is there, the lowest first."""
    parts = [unsigned_varint(len(fields))]
    for tag, data in fields.items():
        parts += (unsigned_varint(tag), unsigned_varint(len(data)), data)
    return b"".join(parts)
