"""Changes to what the journal keeps: one at a time, so that each is decided on what the one before has left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.broker.journal import Journal, MetadataRecord
from oncelog.coordination import Parked
from oncelog.environment import DiskError

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
    """`on_failure` is told of a disk that cannot keep a record; whoever waits for it stays parked."""

    def __init__(self, journal: Journal, on_failure: Callable[[DiskError], None]) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self._last: Parked[None] = Parked.ready(None)

    def make(self, decide: Callable[[], Change[T]]) -> Parked[T]:
        """Decide when every change before is carried out; release with the answer when this one is."""
        answer: Parked[T] = Parked()
        before, self._last = self._last, Parked()
        over = self._last

        def finish(answered: T) -> None:
            answer.release(answered)
            over.release(None)

        def begin(_: None) -> None:
            change = decide()

            def durable(error: DiskError | None) -> None:
                if error is not None:
                    self._on_failure(error)
                    return
                carried_out = change.carry_out()
                if isinstance(carried_out, Parked):
                    carried_out.then(finish)
                else:
                    finish(carried_out)

            if change.records:
                self._journal.append_all(change.records, durable)
            else:
                durable(None)

        before.then(begin)
        return answer
