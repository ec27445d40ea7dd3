"""A dictionary that a decision may change as it likes: nobody else sees that before the changes are kept."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from enum import Enum
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Gone(Enum):
    GONE = "gone"


_GONE = _Gone.GONE


class Draft(MutableMapping[K, V]):
    """What is made of `base`, which nobody changes meanwhile. It costs what is changed, and not what there is.

    A key that is taken out and put in again is where it was.
    """

    __slots__ = ("_base", "_changes", "_count")

    def __init__(self, base: dict[K, V]) -> None:
        self._base = base
        self._changes: dict[K, V | _Gone] = {}
        self._count = len(base)

    def __getitem__(self, key: K) -> V:
        if key not in self._changes:
            return self._base[key]
        value = self._changes[key]
        if isinstance(value, _Gone):
            raise KeyError(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._count += key not in self
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._count -= 1
        if key in self._base:
            self._changes[key] = _GONE
        else:
            del self._changes[key]

    def __contains__(self, key: object) -> bool:
        if key in self._changes:
            return self._changes[key] is not _GONE
        return key in self._base

    def __iter__(self) -> Iterator[K]:
        changes = self._changes
        yield from (key for key in self._base if changes.get(key) is not _GONE)
        yield from [key for key in changes if key not in self._base]

    def __len__(self) -> int:
        return self._count

    def kept(self) -> dict[K, V]:
        """The base with the changes, for everybody. The draft is of no use any more."""
        base = self._base
        for key, value in self._changes.items():
            if isinstance(value, _Gone):
                del base[key]
            else:
                base[key] = value
        self._changes = {}
        return base
