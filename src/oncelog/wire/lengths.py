"""Checks the lengths in a request or an answer before it is decoded.

The codec makes room for as many items as an array says it has, before it has seen the first: a frame of twenty bytes could ask
for more memory than there is, and end the process. So every length must fit into the frame, and an array must not be null where
the protocol has no null. A string has at most as many bytes as its two bytes of length could say, also in a flexible version:
it may be written in one that has only these two.

A message's class is compiled once into one function, as for writing it. The function looks at strings, bytes and arrays, and
skips the fields of fixed size between them.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any

from oncelog.wire.errors import TooManyItemsError, WireError
from oncelog.wire.function_source import FunctionSource, kind_of

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
"""The most items of all arrays of a request together. Each costs the broker some microseconds and objects."""


def items_max_of(request_class: Any) -> int:
    """The number of items that the arrays of such a request may have together."""
    items_max: int = getattr(request_class, "__items_max__", ITEMS_MAX)
    return items_max


End = Callable[[memoryview, int, int], int]
"""Goes over a message that begins at a position, whose arrays may have so many items together; returns where it ends.

Raises IndexError beyond the frame.
"""


def check_lengths(message_class: Any, frame: memoryview, position: int, items_max: int = ITEMS_MAX) -> None:
    """Go over the body of a request or of an answer. Raises WireError for lengths and nulls that it cannot have,
    TooManyItemsError for more items than `items_max` in its arrays together.
    """
    if end_of_lengths(message_class, frame, position, items_max) > len(frame):
        raise WireError(f"a {message_class.__name__} runs past the end of its frame")


def end_of_lengths(message_class: Any, frame: memoryview, position: int, items_max: int = ITEMS_MAX) -> int:
    """The end of a message's body, by its lengths; beyond the frame if the message is cut off.

    Raises WireError. A message without arrays and flexible strings has no length that needs a look.
    """
    try:
        return _end(message_class)(frame, position, items_max)
    except IndexError:
        return len(frame) + 1


def compile_lengths(request_class: Any) -> None:
    """Do now what the first look at such a request would do."""
    _end(request_class)


@cache
def _end(message_class: Any) -> End:
    return _LengthsSource().compiled(message_class)


class _LengthsSource(FunctionSource):
    """The source of the function that checks one class. Nested entities are checked in place."""

    def __init__(self) -> None:
        super().__init__("def end(frame, position, items_left):")
        self._fixed_bytes = 0
        self._needs_a_look = False

    def compiled(self, message_class: Any) -> End:
        self._entity(message_class)
        self._pass_over()
        if not self._needs_a_look:
            del self._lines[1:]
        self._add("return position")
        end: End = self._function(f"the lengths of {message_class.__name__} v{message_class.__version__}", _KNOWN)
        return end

    @contextmanager
    def _block(self, line: str) -> Iterator[None]:
        """A block, with the skip over its fields of fixed size inside it."""
        with super()._block(line):
            yield
            self._pass_over()

    def _pass_over(self) -> None:
        if self._fixed_bytes:
            self._add(f"position += {self._fixed_bytes}")
            self._fixed_bytes = 0

    def _entity(self, entity_type: Any) -> None:
        is_flexible = entity_type.__flexible__
        tagged_arrays: dict[int, Field[Any]] = {}
        for field in fields(entity_type):
            is_array = typing.get_origin(kind_of(field)[0]) is tuple
            if "tag" not in field.metadata:
                self._field(field, is_flexible=is_flexible)
            elif is_array:
                tagged_arrays[field.metadata["tag"]] = field
        if is_flexible:
            self._pass_over()
            self._tagged_fields(tagged_arrays)

    def _field(self, field: Field[Any], *, is_flexible: bool) -> None:
        kind, may_be_null = kind_of(field)
        if typing.get_origin(kind) is tuple:
            self._pass_over()
            self._array(field, typing.get_args(kind)[0], is_flexible=is_flexible, may_be_null=may_be_null)
        elif is_dataclass(kind):
            self._one_entity(kind, may_be_null=may_be_null)
        else:
            self._simple(field.metadata.get("kafka_type"), is_flexible=is_flexible)

    def _one_entity(self, kind: Any, *, may_be_null: bool) -> None:
        """One that may be null has a byte before it, which is negative where it is (KIP-893)."""
        if not may_be_null:
            self._entity(kind)
            return
        self._fixed_bytes += 1
        self._pass_over()
        with self._block("if not frame[position - 1] & 0x80:"):
            self._entity(kind)

    def _simple(self, wire_type: str | None, *, is_flexible: bool) -> None:
        assert wire_type is not None
        if wire_type in FIXED_BYTES:
            self._fixed_bytes += FIXED_BYTES[wire_type]
            return
        assert wire_type in ("string", "bytes", "records"), wire_type
        self._pass_over()
        if not is_flexible:
            self._add(f"position = {'short' if wire_type == 'string' else 'long'}(frame, position)")
            return
        self._needs_a_look |= wire_type == "string"
        # The length is one more, and 0 is null.
        self._add("byte = frame[position]")
        with self._block("if 0 < byte < 0x80:"):
            self._add("position += byte")
        with self._block("else:"):
            self._add(f"position = compact{'_string' if wire_type == 'string' else ''}(frame, position)")

    def _array(self, field: Field[Any], item: Any, *, is_flexible: bool, may_be_null: bool) -> None:
        self._needs_a_look = True
        name, count = field.name, f"count_{len(self._lines)}"
        if is_flexible:
            self._add(f"{count} = frame[position] - 1")
            with self._block(f"if {count} < 0x7F:"):
                self._add("position += 1")
            with self._block("else:"):
                self._add(f"{count}, position = varint(frame, position)")
                self._add(f"{count} -= 1")
        else:
            self._add(f"{count} = int32(frame, position)")
            self._add("position += 4")
        if not may_be_null:
            with self._block(f"if {count} < 0:"):
                self._add(f"raise WireError('{name} is null')")
        with self._block(f"if {count} > 0:") if may_be_null else nullcontext():
            self._items(field, item, count, is_flexible=is_flexible)

    def _items(self, field: Field[Any], item: Any, count: str, *, is_flexible: bool) -> None:
        self._add(f"items_left -= {count}")
        with self._block("if items_left < 0:"):
            self._add("raise TooManyItemsError('the arrays of a request have more items than one may have')")
        is_entity = is_dataclass(item)
        sizes = _sizes(item) if is_entity else [FIXED_BYTES.get(field.metadata["kafka_type"])]
        if None not in sizes:
            self._add(f"position += {count} * {sum(filter(None, sizes))}")
            return
        with self._block(f"if {count} * {sum(size or 1 for size in sizes)} > len(frame) - position:"):
            self._add(f"raise WireError(f'{field.name} has {{{count}}} items, and the frame ends before')")
        with self._block(f"for _ in range({count}):"):
            if is_entity:
                self._entity(item)
            else:
                self._simple(field.metadata["kafka_type"], is_flexible=is_flexible)

    def _tagged_fields(self, arrays: dict[int, Field[Any]]) -> None:
        """KIP-482. Of those that are known, only arrays are looked into."""
        if not arrays:
            with self._block("if frame[position]:"):
                self._add("position = tagged_fields(frame, position)")
            with self._block("else:"):
                self._add("position += 1")
            return
        number = len(self._lines)
        self._add(f"fields_{number}, position = varint(frame, position)")
        with self._block(f"for _ in range(fields_{number}):"):
            self._add(f"tag_{number}, position = varint(frame, position)")
            self._add("size, position = varint(frame, position)")
            self._add(f"end_{number} = position + size")
            for tag, field in arrays.items():
                with self._block(f"if tag_{number} == {tag}:"):
                    self._field(field, is_flexible=True)
            self._add(f"position = end_{number}")


def _sizes(entity_type: Any) -> list[int | None]:
    """How many bytes each part of an entity has; None where that differs, and is one at least."""
    sizes: list[int | None] = [None] if entity_type.__flexible__ else []
    for field in fields(entity_type):
        if "tag" not in field.metadata:
            is_array = typing.get_origin(kind_of(field)[0]) is tuple
            sizes.append(None if is_array else FIXED_BYTES.get(field.metadata.get("kafka_type", "")))
    assert sizes, f"a {entity_type.__name__} would take no room"
    return sizes


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


def _compact(frame: memoryview, position: int) -> int:
    """Bytes of a flexible version: the length is one more, and 0 is null."""
    size, position = _varint(frame, position)
    return position + max(size - 1, 0)


def _compact_string(frame: memoryview, position: int) -> int:
    """A string of a flexible version, as `_compact`."""
    size, position = _varint(frame, position)
    if size - 1 > STRING_BYTES_MAX:
        raise WireError(f"a string of {size - 1} bytes")
    return position + max(size - 1, 0)


def _short(frame: memoryview, position: int) -> int:
    """A string: two bytes of length, negative for null."""
    first = frame[position]
    return position + 2 if first & 0x80 else position + 2 + (first << 8 | frame[position + 1])


def _long(frame: memoryview, position: int) -> int:
    """Bytes: four bytes of length, negative for null."""
    return position + 4 + max(_int32(frame, position), 0)


def _tagged_fields(frame: memoryview, position: int) -> int:
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position


_KNOWN: dict[str, Any] = {
    "WireError": WireError,
    "TooManyItemsError": TooManyItemsError,
    "int32": _int32,
    "varint": _varint,
    "compact": _compact,
    "compact_string": _compact_string,
    "short": _short,
    "long": _long,
    "tagged_fields": _tagged_fields,
}
"""The names that the compiled functions use."""
