"""What stands before the body of a request and of an answer.

    request   api key i16 | version i16 | correlation id i32 | client id string? | tagged fields, if flexible | body
    answer    correlation id i32 | tagged fields, if flexible and not ApiVersions | body

The length that precedes both on the wire is the connection's to read, and `encode_request`'s or `encode_answer`'s to write.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from typing_extensions import Buffer

from oncelog.wire.errors import WireError
from oncelog.wire.messages import LARGE_BUFFER_BYTES, decode, encode_frame, gathered, message_class
from oncelog.wire.writing import writer

API_VERSIONS_KEY = 18
FRAME_LENGTH = struct.Struct(">i")
FRAME_BYTES_MIN, FRAME_BYTES_MAX = 4, 2**31 - 1
JOINED_BYTES_MAX = 65_536
"""A larger answer leaves as it is, behind its header."""
_FIXED = struct.Struct(">hhih")
_LENGTH_AND_CORRELATION = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    """`end` is where the client id ends; a flexible request's tagged fields begin there, any other's body."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


def frame_bytes(prefix: Buffer, bytes_max: int = FRAME_BYTES_MAX) -> int:
    """The size of the frame that the four bytes before it tell of. Raises WireError."""
    (size_bytes,) = FRAME_LENGTH.unpack(prefix)
    if not FRAME_BYTES_MIN <= size_bytes <= bytes_max:
        raise WireError(f"a frame of {size_bytes} bytes")
    return int(size_bytes)


def read_request_header(frame: Buffer) -> RequestHeader:
    """Read the part of the header that every version has. Raises WireError."""
    try:
        api_key, version, correlation_id, client_id_bytes = _FIXED.unpack_from(frame, 0)
        if client_id_bytes < 0:
            return RequestHeader(api_key, version, correlation_id, None, _FIXED.size)
        end = _FIXED.size + client_id_bytes
        client_id = bytes(memoryview(frame)[_FIXED.size : end])
        if len(client_id) != client_id_bytes:
            raise WireError("the client id runs past the end of the request")
        return RequestHeader(api_key, version, correlation_id, client_id.decode(), end)
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"not a request header: {error}") from error


def _read_unsigned_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        if position >= len(data):
            raise WireError("the tagged fields run past the end of the request")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise WireError("a tagged field has a number of more than five bytes")


def skip_tagged_fields(frame: Buffer, position: int) -> int:
    """Return where the tagged fields that begin at `position` end. Raises WireError."""
    data = memoryview(frame)
    if position < len(data) and not data[position]:
        return position + 1
    count, position = _read_unsigned_varint(data, position)
    for _ in range(count):
        _, position = _read_unsigned_varint(data, position)
        size, position = _read_unsigned_varint(data, position)
        position += size
        if position > len(data):
            raise WireError("a tagged field runs past the end of the request")
    return position


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str, body: Any) -> list[Buffer]:
    """Write a whole request frame. The message says which header it has: ApiVersions and the flexible ones the longer."""
    header = type(body).__header_schema__(
        request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return encode_frame(header, body)


def read_answer_header(answer_class: Any, frame: Buffer, correlation_id: int, who: str) -> int:
    """Where the body of an answer begins. Raises WireError also for the answer to another request, in the name of `who` sent it."""
    header, position = decode(answer_class.__header_schema__, frame)
    if header.correlation_id != correlation_id:
        raise WireError(f"{who} answered request {header.correlation_id} instead of {correlation_id}")
    return position


def encode_answer(api_key: int, version: int, correlation_id: int, body: Any) -> list[Buffer]:
    """Write a whole answer frame. The header of an ApiVersions answer has no tagged fields in any version (KIP-482)."""
    parts: list[Buffer] = []
    answer_class: Any = type(body)
    writer(answer_class)(body, parts.append)
    tags = b"\x00" if api_key != API_VERSIONS_KEY and message_class(api_key, version, "response").__flexible__ else b""
    size = 4 + len(tags) + sum(map(len, parts))  # type: ignore[arg-type]
    head = _LENGTH_AND_CORRELATION.pack(size, correlation_id) + tags
    if size < LARGE_BUFFER_BYTES:
        return [b"".join((head, *parts))]
    chunks = gathered(parts)
    if len(chunks) == 1 and size < JOINED_BYTES_MAX:
        return [b"".join((head, chunks[0]))]
    return [head, *chunks]
