"""Messages and their frames, from bytes and to bytes.

Message classes are kio's, generated from Kafka's own schemas, and those that were registered; `message_class` finds
one by API key, version and kind. `encode` returns a list of buffers and never joins them: the records of a Fetch
answer leave as the object they came in.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from kio.schema.index import api_key_map
from kio.serial import entity_reader
from typing_extensions import Buffer

from oncelog.wire.errors import WireError
from oncelog.wire.lengths import check_lengths, compile_lengths, items_max_of
from oncelog.wire.writing import writer

LARGE_BUFFER_BYTES = 4096
COPIED_BYTES_MIN = 1024 * 1024


_registered: dict[int, tuple[str, Callable[[int], Any]]] = {}
_registered_modules: dict[tuple[int, int], Any] = {}


def register_messages(api_key: int, name: str, classes: Callable[[int], Any]) -> None:
    """Adds an API that kio does not have. `classes` makes the classes of one version, requests and responses.

    `name` is in kio's form: words in lower case, with underscores between them.
    """
    _registered[api_key] = name, classes


@cache
def message_class(api_key: int, version: int, kind: str) -> Any:
    """The class of one message. `kind` is "request" or "response"."""
    return getattr(message_module(api_key, version, kind), api_name(api_key) + kind.capitalize())


@cache
def message_module(api_key: int, version: int, kind: str) -> Any:
    """The module of one message, which also holds the classes nested in it."""
    registered = _registered.get(api_key)
    if registered is None:
        return load_module(f"kio.schema.{api_key_map[api_key]}.v{version}.{kind}")
    _, classes = registered
    # One module for both kinds. Two threads may make it at once, and must get the same classes.
    found = _registered_modules.get((api_key, version))
    return found or _registered_modules.setdefault((api_key, version), classes(version))


def load_module(path: str) -> ModuleType:
    """Import a module, and its package before it.

    A thread that imports a module waits for the thread that imports its package. If that one waits for the module,
    Python ends one of the two with an error.
    """
    import_module(path.rpartition(".")[0])
    return import_module(path)


def api_name(api_key: int) -> str:
    """The name of an API; its number where it is not known."""
    name = _registered[api_key][0] if api_key in _registered else api_key_map.get(api_key)
    return str(api_key) if name is None else "".join(word.capitalize() for word in name.split("_"))


@cache
def _field_names(entity_type: type[Any]) -> frozenset[str]:
    return frozenset(field.name for field in fields(entity_type))


def construct(entity_type: Any, **values: Any) -> Any:
    """Make one entity, leaving out what this version of it does not have."""
    names = _field_names(entity_type)
    if values.keys() <= names:
        return entity_type(**values)
    return entity_type(**{name: value for name, value in values.items() if name in names})


@cache
def _reader(entity_type: Any) -> Callable[[Buffer, int], tuple[Any, int]]:
    return entity_reader(entity_type)


def decode(entity_type: Any, data: Buffer, offset: int = 0) -> tuple[Any, int]:
    """Read one entity at `offset`; return it and the number of bytes it took.

    Raises WireError for bytes that are not such an entity.
    """
    try:
        return _reader(entity_type)(data, offset)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"not a {entity_type.__name__}: {error}") from error


def decode_request(request_class: Any, frame: memoryview, offset: int = 0, items_max: int | None = None) -> Any:
    """Read the body of a request. Raises WireError, also for an array that is null where the protocol has no null.

    TooManyItemsError says that its arrays have more than `items_max` items, or without it more than such a request may have;
    then none of them was made. MemoryError says the same of a request that is large.
    """
    check_lengths(request_class, frame, offset, items_max_of(request_class) if items_max is None else items_max)
    if len(frame) >= COPIED_BYTES_MIN:
        # kio copies what is in it, and without the memory for that it does not raise: it panics.
        bytearray(len(frame))
    return decode(request_class, frame, offset)[0]


def decode_answer(answer_class: Any, frame: memoryview, offset: int) -> Any:
    """Read the body of an answer. Raises WireError, also for an array that is null where the protocol has no null."""
    check_lengths(answer_class, frame, offset, items_max=sys.maxsize)
    return decode(answer_class, frame, offset)[0]


def prepare(api_key: int, version: int) -> None:
    """Load what a request of this version and its answer need."""
    request_class = message_class(api_key, version, "request")
    compile_lengths(request_class)
    _reader(request_class)
    writer(message_class(api_key, version, "response"))


def encode(*entities: Any) -> list[Buffer]:
    """Write entities one after the other, as a list of buffers."""
    parts: list[Buffer] = []
    for entity in entities:
        entity_type: Any = type(entity)
        writer(entity_type)(entity, parts.append)
    return gathered(parts)


def gathered(parts: list[Buffer]) -> list[Buffer]:
    """Small parts joined to one, and large ones as they are."""
    if max(map(len, parts), default=0) < LARGE_BUFFER_BYTES:  # type: ignore[arg-type]
        return [b"".join(parts)]
    chunks: list[Buffer] = []
    first = 0
    for place, part in enumerate(parts):
        if len(part) >= LARGE_BUFFER_BYTES:  # type: ignore[arg-type]
            if first < place:
                chunks.append(b"".join(parts[first:place]))
            chunks.append(part)
            first = place + 1
    if first < len(parts):
        chunks.append(b"".join(parts[first:]))
    return chunks


def encode_frame(*entities: Any) -> list[Buffer]:
    """Write a length-prefixed frame: usually a header and a body."""
    chunks = encode(*entities)
    size = sum(memoryview(chunk).nbytes for chunk in chunks)
    length = struct.pack(">i", size)
    if len(chunks[0]) < LARGE_BUFFER_BYTES:  # type: ignore[arg-type]
        return [length + bytes(chunks[0]), *chunks[1:]]
    return [length, *chunks]


#   request   api key i16 | version i16 | correlation id i32 | client id string? | tagged fields, if flexible | body
#   answer    correlation id i32 | tagged fields, if flexible and not ApiVersions | body
#
# A frame is the length of one of them and then itself. The connection reads the length.

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
    """Returns the position of an answer's body. Raises WireError, also for the answer to another request; `who` is the
    server's name in it.
    """
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
