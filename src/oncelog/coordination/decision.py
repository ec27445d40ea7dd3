"""The contract of every coordinator: transactions, groups of the classic protocol, and consumer groups.

1. `decide(state, request, time) -> Decision`. It changes nothing: asked again it decides the same, and a decision that nobody
   carries out leaves nothing behind. It draws at most a new producer id or member id, which is then nobody's.
2. The broker appends `records`. If that is refused, the answer is the error, and nothing else happens.
3. `replay(record)` makes each record true. Nothing else changes what is on disk, live and at a start.
4. `remember()` changes the volatile state: who waits, and until when.
5. `answer` is given.

Between 1 and 2 nobody else is served. Where a decision has to wait for the disk, its coordinator says in between that it is
pending (`TransactionalIds.hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record", covariant=True)
Answer = TypeVar("Answer", covariant=True)


def nothing_to_remember() -> None:
    """The default of a decision whose records say everything."""


class Decision(NamedTuple, Generic[Record, Answer]):
    """The records, the answer and the change in memory. See the contract of this module."""

    records: tuple[Record, ...]
    answer: Answer
    remember: Callable[[], None] = nothing_to_remember


K = TypeVar("K")
V = TypeVar("V")


class _Gone(Enum):
    GONE = "gone"


_GONE = _Gone.GONE


class Draft(MutableMapping[K, V]):
    """A copy on write of the dictionary `base`, which nobody else changes meanwhile. It costs as much as is changed.

    A decision changes it freely: nobody else sees a change before `kept`. A key that is removed and put back keeps its place.
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
        """Make the changes in the base and return it. The draft must not be used after that."""
        base = self._base
        for key, value in self._changes.items():
            if isinstance(value, _Gone):
                del base[key]
            else:
                base[key] = value
        self._changes = {}
        return base
