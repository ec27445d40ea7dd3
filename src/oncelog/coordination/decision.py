"""What both coordinators return: the records to write, and the answer to give once they are written."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record", covariant=True)
Answer = TypeVar("Answer", covariant=True)


class Decision(NamedTuple, Generic[Record, Answer]):
    """A decision changes nothing by itself: the broker appends `records`, replays them, and then gives `answer`."""

    records: tuple[Record, ...]
    answer: Answer
