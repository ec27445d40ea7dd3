"""Bytes to messages and back.

Message classes are kio's, generated from Kafka's own schemas; `message_class` finds one by API name, version and kind.
`encode` returns a list of buffers and never joins them: the records of a Fetch answer leave as the object they came in.
"""

from __future__ import annotations

import io
import struct
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from typing_extensions import Buffer

from oncelog.wire.errors import WireError

FRAME_LENGTH_BYTES = 4
LARGE_BUFFER_BYTES = 4096


@cache
def message_class(api_key: int, version: int, kind: str) -> Any:
    """The class of one message. `kind` is "request" or "response"."""
    name = api_key_map[api_key]
    module = import_module(f"kio.schema.{name}.v{version}.{kind}")
    return getattr(module, "".join(word.capitalize() for word in name.split("_")) + kind.capitalize())


@cache
def message_module(api_key: int, version: int, kind: str) -> Any:
    """The module of one message, which also holds the classes nested in it."""
    return import_module(message_class(api_key, version, kind).__module__)


@cache
def _field_names(entity_type: type[Any]) -> frozenset[str]:
    return frozenset(field.name for field in fields(entity_type))


def construct(entity_type: Any, **values: Any) -> Any:
    """Make one entity, leaving out what this version of it does not have."""
    names = _field_names(entity_type)
    return entity_type(**{name: value for name, value in values.items() if name in names})


@cache
def _reader(entity_type: Any) -> Callable[[Buffer, int], tuple[Any, int]]:
    return entity_reader(entity_type)


@cache
def _writer(entity_type: Any) -> Callable[[Any, Any], None]:
    return entity_writer(entity_type)


class _Gather:
    """Collects small writes into one buffer and keeps large ones as they are."""

    __slots__ = ("chunks", "small")

    def __init__(self) -> None:
        self.chunks: list[Buffer] = []
        self.small = io.BytesIO()

    def write(self, data: Buffer) -> int:
        size = len(data)  # type: ignore[arg-type]
        if size < LARGE_BUFFER_BYTES:
            return self.small.write(data)
        self.flush()
        self.chunks.append(data)
        return size

    def flush(self) -> None:
        if self.small.tell():
            self.chunks.append(self.small.getvalue())
            self.small = io.BytesIO()


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


def decode_request(request_class: Any, data: Buffer, offset: int = 0) -> Any:
    """Read the body of a request. Raises WireError, also for an array that is null where the protocol has no null."""
    body, _ = decode(request_class, data, offset)
    _refuse_null_arrays(body, _arrays(request_class))
    return body


class _Array(NamedTuple):
    """One array of an entity, or one entity nested in it, and the arrays further in."""

    name: str
    may_be_null: bool
    is_nested: bool
    inner: tuple[_Array, ...]


@cache
def _arrays(entity_type: Any) -> tuple[_Array, ...]:
    """The fields of an entity that are arrays, or lead to some. kio reads a null array as None wherever it stands."""
    return tuple(_find_arrays(entity_type))


def _find_arrays(entity_type: Any) -> Iterator[_Array]:
    for field in fields(entity_type):
        arms = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,)
        may_be_null = types.NoneType in arms
        for arm in arms:
            is_array = typing.get_origin(arm) is tuple
            item = typing.get_args(arm)[0] if is_array else arm
            is_entity = is_dataclass(item)
            inner = _arrays(item) if is_entity else ()
            if is_array and (inner or not may_be_null):
                yield _Array(field.name, may_be_null, False, inner)
            elif inner:
                yield _Array(field.name, may_be_null, True, inner)


def _refuse_null_arrays(entity: Any, arrays: tuple[_Array, ...]) -> None:
    for name, may_be_null, is_nested, inner in arrays:
        value = getattr(entity, name)
        if value is None:
            if not may_be_null:
                raise WireError(f"{name} is null in a {type(entity).__name__}")
        elif is_nested:
            _refuse_null_arrays(value, inner)
        elif inner:
            for item in value:
                _refuse_null_arrays(item, inner)


def encode(*entities: Any) -> list[Buffer]:
    """Write entities one after the other, as a list of buffers."""
    gather = _Gather()
    for entity in entities:
        entity_type: Any = type(entity)
        _writer(entity_type)(gather, entity)
    gather.flush()
    return gather.chunks


def encode_frame(*entities: Any) -> list[Buffer]:
    """Write a length-prefixed frame: usually a header and a body."""
    chunks = encode(*entities)
    size = sum(memoryview(chunk).nbytes for chunk in chunks)
    length = struct.pack(">i", size)
    if len(chunks[0]) < LARGE_BUFFER_BYTES:  # type: ignore[arg-type]
        return [length + bytes(chunks[0]), *chunks[1:]]
    return [length, *chunks]
