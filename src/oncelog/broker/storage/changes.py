"""Changes to what the journal keeps: one at a time, so that each is decided on what the one before has left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oncelog.broker.storage.journal import Journal, MetadataRecord
from oncelog.coordination import Parked, start

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What to write, and what to do, and answer, once that is durable. Without records that is at once.

    What takes long answers later; the next change waits for it.
    """

    records: Sequence[MetadataRecord]
    carry_out: Callable[[], T | Parked[T]]

    @classmethod
    def none(cls, answer: T) -> Change[T]:
        return cls((), lambda: answer)


class Changes:
    """A change that has begun is carried out, whether or not somebody still waits for its answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: deque[tuple[Callable[[], Change[Any]], Parked[Any]]] = deque()
        self._is_under_way = False

    def make(self, decide: Callable[[], Change[T]]) -> Parked[T]:
        """Decide when every change before is carried out; release with the answer when this one is."""
        made: Parked[T] = Parked()
        self._waiting.append((decide, made))
        if not self._is_under_way:
            start(self._make_all())
        return made

    async def _make_all(self) -> None:
        # One flow for all that wait, and not each after the one before: there may be thousands.
        self._is_under_way = True
        while self._waiting:
            decide, made = self._waiting.popleft()
            change = decide()
            if change.records:
                await self._journal.write(change.records)
            answer = change.carry_out()
            made.release(await answer if isinstance(answer, Parked) else answer)
        self._is_under_way = False
