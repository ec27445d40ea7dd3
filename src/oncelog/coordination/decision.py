"""What both coordinators return: the records to write, and the answer to give once they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Record = TypeVar("Record", covariant=True)
Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Record, Answer]):
    """A decision changes nothing by itself: the broker appends `records`, replays them, and then gives `answer`."""

    records: tuple[Record, ...]
    answer: Answer
