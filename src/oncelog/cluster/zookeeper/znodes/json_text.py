"""JSON as Kafka writes it into ZooKeeper, and as leniently read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_NUMBER = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
"""Python reads none of some thousand digits."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class ZnodeError(ValueError):
    """A znode is malformed. The message names its path."""

    def __init__(self, path: str, data: bytes, why: str) -> None:
        super().__init__(f"{path} in ZooKeeper has {data.decode(errors='replace')!r}: {why}")
        self.path = path


def encode(value: Mapping[str, object]) -> bytes:
    """Fields in the order of `value`. Jackson writes escapes with capital digits, and half of a pair as an escape of its own."""
    text = _ESCAPE.sub(_capital_digits, _ENCODER.encode(value))
    return _BEYOND_BMP.sub(_pair, text).encode()


def _capital_digits(escape: re.Match[str]) -> str:
    text = escape[0]
    return text[:2] + text[2:].upper()


def _pair(character: re.Match[str]) -> str:
    code = ord(character[0]) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


class JsonObject:
    """A JSON object of a znode. Unknown fields are ignored: a later Kafka may have more.

    All methods raise ZnodeError.
    """

    def __init__(self, path: str, data: bytes, value: object) -> None:
        if not isinstance(value, dict):
            raise ZnodeError(path, data, "that is no JSON object")
        self._path = path
        self._data = data
        self._value: dict[str, Any] = value

    @classmethod
    def parse(cls, path: str, data: bytes) -> JsonObject:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise ZnodeError(path, data, "that is no JSON") from None
        if (not data.isascii() or b"\\u" in data) and not _is_text(value):
            raise ZnodeError(path, data, "half of a character is no text")
        return cls(path, data, value)

    def has(self, name: str) -> bool:
        return name in self._value

    def fail(self, why: str) -> ZnodeError:
        return ZnodeError(self._path, self._data, why)

    def int32(self, name: str, default: int | None = None) -> int:
        value = self._field(name, default)
        if not _is_int32(value):
            raise self.fail(f"{name} is no whole number of 32 bits")
        return int(value)

    def string(self, name: str) -> str:
        value = self._field(name)
        if not isinstance(value, str):
            raise self.fail(f"{name} is no string")
        return value

    def optional_string(self, name: str) -> str | None:
        return self.string(name) if self._value.get(name) is not None else None

    def long_in_string(self, name: str) -> int:
        return self.number(name, self.string(name), LONG_MAX)

    def number(self, name: str, text: str, highest: int = INT_MAX) -> int:
        """Digits as Java reads them."""
        if not _NUMBER.fullmatch(text) or not -highest - 1 <= int(text) <= highest:
            raise self.fail(f"{name} is no number: {text!r}")
        return int(text)

    def int32s(self, name: str) -> tuple[int, ...]:
        value = self._field(name)
        if not isinstance(value, list) or not all(map(_is_int32, value)):
            raise self.fail(f"{name} is no list of whole numbers of 32 bits")
        return tuple(value)

    def strings(self, name: str) -> tuple[str, ...]:
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.fail(f"{name} is no list of strings")
        return tuple(value)

    def field(self, name: str) -> JsonObject:
        return JsonObject(self._path, self._data, self._field(name))

    def optional_field(self, name: str) -> JsonObject:
        """An empty one where there is none."""
        value = self._value.get(name)
        return JsonObject(self._path, self._data, {} if value is None else value)

    def fields(self, name: str) -> list[JsonObject]:
        value = self._field(name)
        if not isinstance(value, list):
            raise self.fail(f"{name} is no list")
        return [JsonObject(self._path, self._data, one) for one in value]

    def each(self, read: Callable[[JsonObject, str], T]) -> dict[str, T]:
        """All fields, by their names."""
        return {name: read(self, name) for name in self._value}

    def _field(self, name: str, default: object = None) -> Any:
        value = self._value.get(name, default)
        if value is None:
            raise self.fail(f"there is no {name}")
        return value


def _is_text(value: object) -> bool:
    """Returns False for lone surrogates: JSON allows them (RFC 8259 §8.2), UTF-8 does not."""
    try:
        _ENCODER.encode(value).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _is_int32(value: object) -> bool:
    return type(value) is int and -INT_MAX - 1 <= value <= INT_MAX


def in_order_of_scala(keys: Iterable[str]) -> list[str]:
    """The order in which a mutable HashMap of Scala 2.13 goes over keys: by table slot, then by hash.

    The table doubles before it is three quarters full.
    """
    names = list(keys)
    slots = 16
    for count in range(1, len(names) + 1):
        if count >= slots * 3 // 4:
            slots *= 2
    hashes = {name: _spread(name) for name in names}
    return sorted(names, key=lambda name: (hashes[name] & (slots - 1), _signed(hashes[name])))


def in_order_of_java(keys: Iterable[str]) -> list[str]:
    """The order in which java.util.Properties goes over keys that were put in so: by table slot.

    The table doubles when it is three quarters full. Keys that share a slot come in the order in which they were put in, but for
    what ConcurrentHashMap.transfer does to that order when it moves them.
    """
    slots: list[list[str]] = [[] for _ in range(16)]
    for count, name in enumerate(keys, start=1):
        slots[_spread(name) & (len(slots) - 1)].append(name)
        if count >= len(slots) * 3 // 4:
            slots = _doubled(slots)
    return [name for slot in slots for name in slot]


def _doubled(slots: list[list[str]]) -> list[list[str]]:
    doubled: list[list[str]] = [[] for _ in range(2 * len(slots))]
    for slot in slots:
        targets = [_spread(name) & (len(doubled) - 1) for name in slot]
        last_run = max((index for index in range(1, len(slot)) if targets[index] != targets[index - 1]), default=0)
        # Those that stay together to the end are moved as they are, the others are put before them one by one.
        for index in range(last_run, len(slot)):
            doubled[targets[index]].append(slot[index])
        for index in range(last_run):
            doubled[targets[index]].insert(0, slot[index])
    return doubled


def _spread(name: str) -> int:
    """String.hashCode, its high half put onto its low one."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value ^ value >> 16


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
