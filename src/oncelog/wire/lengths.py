"""A look at the lengths in a request, or in an answer, before it is decoded.

The codec makes room for as many items as an array says it has, before it has seen the first: a frame of twenty bytes can
ask for more memory than there is, and the process ends. Here every length must fit into the frame, and an array must not
be null where the protocol has no null. A string is no longer than its two bytes of length could say, also where a flexible
version has other lengths: it will be written where there are only the two. A message's class is compiled once into the
steps that lead over its fields; only strings, bytes and arrays need a step of their own.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from oncelog.wire.errors import TooManyItemsError, WireError
from oncelog.wire.zookeeper_mode import VERSIONS as ZOOKEEPER_MODE_VERSIONS

FIXED_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}
VARINT_BYTES_MAX = 5
STRING_BYTES_MAX = 2**15 - 1
ITEMS_MAX = 100_000
"""Of all arrays of a request together. Each is some bytes that are sent, and some microseconds and objects of the broker."""

CONTROLLER_ITEMS_MAX = 2_000_000
"""Of what a controller says to brokers: a broker that starts hears of every partition at once, and each is about ten items."""


def items_max_of(request_class: Any) -> int:
    """How many items the arrays of such a request may have together."""
    return CONTROLLER_ITEMS_MAX if request_class.__api_key__ in ZOOKEEPER_MODE_VERSIONS else ITEMS_MAX


class ItemsLeft:
    """How many items the arrays of a request may still have."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    def take(self, count: int) -> None:
        self.count -= count
        if self.count < 0:
            raise TooManyItemsError("the arrays of a request have more items than one may have")


Step = Callable[[memoryview, int, ItemsLeft], int]
"""Goes over a part of the frame that begins at a position; returns where it ends. Raises IndexError beyond the frame."""
Steps = tuple[tuple[int, Step], ...]
"""Before each step, so many bytes of which none is a length."""


def check_lengths(message_class: Any, frame: memoryview, position: int, items_max: int = ITEMS_MAX) -> None:
    """Go over the body of a request or of an answer. Raises WireError for lengths and nulls that it cannot have,
    TooManyItemsError for more items than `items_max` in its arrays together.
    """
    if end_of_lengths(message_class, frame, position, items_max) > len(frame):
        raise WireError(f"a {message_class.__name__} runs past the end of its frame")


def end_of_lengths(message_class: Any, frame: memoryview, position: int, items_max: int = ITEMS_MAX) -> int:
    """Where the body of a message ends, by its lengths; beyond the frame where it is cut off.

    Raises WireError. A message without arrays and flexible strings has no length that needs a look.
    """
    left = ItemsLeft(items_max)
    try:
        for fixed_bytes, step in _steps(message_class):
            position = step(frame, position + fixed_bytes, left)
    except IndexError:
        return len(frame) + 1
    return position


def compile_lengths(request_class: Any) -> None:
    """Do now what the first look at such a request would do."""
    _steps(request_class)


@cache
def _steps(entity_type: Any) -> Steps:
    """Empty where there is nothing but what the codec itself is careful with."""
    found = list(_fields(entity_type))
    return _merged(found) if any(isinstance(one, _Array) or one is _compact_string for one in found) else ()


def _merged(found: Iterable[int | Step]) -> Steps:
    steps: list[tuple[int, Step]] = []
    fixed_bytes = 0
    for one in found:
        if isinstance(one, int):
            fixed_bytes += one
        else:
            steps.append((fixed_bytes, one))
            fixed_bytes = 0
    return (*steps, (fixed_bytes, _nothing)) if fixed_bytes else tuple(steps)


def _fields(entity_type: Any) -> Iterator[int | Step]:
    is_flexible = entity_type.__flexible__
    tagged: dict[int, Step] = {}
    for field in fields(entity_type):
        kind, may_be_null = field.type, False
        if isinstance(kind, types.UnionType):
            may_be_null = types.NoneType in typing.get_args(kind)
            kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
        wire_type = field.metadata.get("kafka_type")
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            is_entity = is_dataclass(item)
            parts = list(_fields(item)) if is_entity else [_simple(wire_type, is_flexible)]
            array = _Array(field.name, parts, is_flexible=is_flexible, may_be_null=may_be_null)
            if "tag" in field.metadata:
                tagged[field.metadata["tag"]] = array
            else:
                yield array
        elif "tag" in field.metadata:
            continue
        elif is_dataclass(kind):
            yield _Entity(_merged(list(_fields(kind))), may_be_null=may_be_null)
        else:
            yield _simple(wire_type, is_flexible)
    if is_flexible:
        yield _TaggedArrays(tagged) if tagged else _tagged_fields


def _simple(wire_type: str | None, is_flexible: bool) -> int | Step:
    assert wire_type is not None
    if wire_type in FIXED_BYTES:
        return FIXED_BYTES[wire_type]
    assert wire_type in ("string", "bytes", "records"), wire_type
    if is_flexible:
        return _compact_string if wire_type == "string" else _compact
    return _short if wire_type == "string" else _long


class _Entity:
    """The step over an entity in an entity. One that may be null has a byte before it, which is negative where it is."""

    __slots__ = ("_may_be_null", "_steps")

    def __init__(self, steps: Steps, *, may_be_null: bool) -> None:
        self._steps = steps
        self._may_be_null = may_be_null

    def __call__(self, frame: memoryview, position: int, left: ItemsLeft) -> int:
        if self._may_be_null:
            position += 1
            if frame[position - 1] & 0x80:
                return position
        for fixed_bytes, step in self._steps:
            position = step(frame, position + fixed_bytes, left)
        return position


class _Array:
    """The step over an array, whose items are made of `parts`."""

    __slots__ = ("_fixed_bytes", "_is_flexible", "_item", "_least_bytes", "_may_be_null", "_name")

    def __init__(self, name: str, parts: Sequence[int | Step], *, is_flexible: bool, may_be_null: bool) -> None:
        self._name = name
        self._is_flexible = is_flexible
        self._may_be_null = may_be_null
        self._item = _merged(parts)
        sizes = [part if isinstance(part, int) else 1 for part in parts]
        self._least_bytes = sum(sizes)
        self._fixed_bytes = self._least_bytes if all(isinstance(part, int) for part in parts) else 0
        assert self._least_bytes > 0, f"an item of {name} would take no room"

    def __call__(self, frame: memoryview, position: int, left: ItemsLeft) -> int:
        if self._is_flexible:
            count = frame[position] - 1
            if count < 0x7F:
                position += 1
            else:
                count, position = _varint(frame, position)
                count -= 1
        else:
            count, position = _int32(frame, position), position + 4
        if count < 0:
            if self._may_be_null:
                return position
            raise WireError(f"{self._name} is null")
        left.take(count)
        if self._fixed_bytes:
            return position + count * self._fixed_bytes
        if count * self._least_bytes > len(frame) - position:
            raise WireError(f"{self._name} has {count} items, and the frame ends before")
        for _ in range(count):
            for fixed_bytes, step in self._item:
                position = step(frame, position + fixed_bytes, left)
        return position


class _TaggedArrays:
    """The step over tagged fields of which some are arrays."""

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Mapping[int, Step]) -> None:
        self._arrays = arrays

    def __call__(self, frame: memoryview, position: int, left: ItemsLeft) -> int:
        count, position = _varint(frame, position)
        for _ in range(count):
            tag, position = _varint(frame, position)
            size, position = _varint(frame, position)
            array = self._arrays.get(tag)
            if array is not None:
                array(frame, position, left)
            position += size
        return position


def _nothing(_frame: memoryview, position: int, _left: ItemsLeft) -> int:
    return position


def _int32(frame: memoryview, position: int) -> int:
    value = frame[position] << 24 | frame[position + 1] << 16 | frame[position + 2] << 8 | frame[position + 3]
    return value - (1 << 32) if value >> 31 else value


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    byte = frame[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        position += 1
        byte = frame[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise WireError(f"a length of more than {VARINT_BYTES_MAX} bytes")


def _compact(frame: memoryview, position: int, _left: ItemsLeft) -> int:
    """Bytes of a flexible version: the length is one more, and 0 is null."""
    if 0 < frame[position] < 0x80:
        return position + frame[position]
    size, position = _varint(frame, position)
    return position + max(size - 1, 0)


def _compact_string(frame: memoryview, position: int, _left: ItemsLeft) -> int:
    """A string of a flexible version, as `_compact`."""
    if 0 < frame[position] < 0x80:
        return position + frame[position]
    size, position = _varint(frame, position)
    if size - 1 > STRING_BYTES_MAX:
        raise WireError(f"a string of {size - 1} bytes")
    return position + max(size - 1, 0)


def _short(frame: memoryview, position: int, _left: ItemsLeft) -> int:
    """A string: two bytes of length, negative for null."""
    first = frame[position]
    return position + 2 if first & 0x80 else position + 2 + (first << 8 | frame[position + 1])


def _long(frame: memoryview, position: int, _left: ItemsLeft) -> int:
    """Bytes: four bytes of length, negative for null."""
    return position + 4 + max(_int32(frame, position), 0)


def _tagged_fields(frame: memoryview, position: int, _left: ItemsLeft) -> int:
    if not frame[position]:
        return position + 1
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position
