"""The contract of every coordinator: transactions, groups of the classic protocol, and consumer groups.

1. `decide(state, request, time) -> Decision`. It changes nothing: asked again it decides the same, and a decision that nobody
   carries out leaves nothing behind. It draws at most a new producer id or member id, which is then nobody's.
2. The broker appends `records`. If that is refused, whoever asked is told so, and that is all.
3. `replay(record)` makes each record true. Nothing else changes what is on disk, live and at a start.
4. `remember()` changes what is in memory alone: who waits, and until when.
5. `answer` is given.

Between 1 and 2 nobody else is served. Where a decision has to wait for the disk, its coordinator says in between that it is
pending (`TransactionalIds.hold`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record", covariant=True)
Answer = TypeVar("Answer", covariant=True)


def nothing_to_remember() -> None:
    """Of a decision that is all in its records."""


class Decision(NamedTuple, Generic[Record, Answer]):
    """What is to be recorded, answered and remembered. See the contract of this module."""

    records: tuple[Record, ...]
    answer: Answer
    remember: Callable[[], None] = nothing_to_remember
