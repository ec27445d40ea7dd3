"""A history: what clients did with a log, operation by operation.

An operation is a list of micro-operations of one process: sends and polls. An operation with several micro-operations is
one transaction, so its sends are visible together or not at all. A process does one operation after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

JsonScalar = str | int | float | bool | None
Key = str
"""One topic-partition, as `orders-0`."""
Identity = object
"""Stands for a value in sets and dictionaries, where Python takes true for 1."""

_BOOLEANS = {True: ("true",), False: ("false",)}


def identity_of(value: JsonScalar) -> Identity:
    return _BOOLEANS[value] if isinstance(value, bool) else value


def topic_of(key: Key) -> str:
    return key.rpartition("-")[0]


class Ending(StrEnum):
    """How an operation ended, as its process knows it."""

    OK = "ok"
    FAILED = "failed"
    """It is known not to have happened: nobody may see what it sent."""
    UNKNOWN = "info"
    """It happened or it did not: the process died, or got no answer."""


@dataclass(frozen=True, slots=True)
class RecordedSend:
    """`offset` is None where the producer did not learn it."""

    key: Key
    value: JsonScalar
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedPoll:
    """The result of one call of poll: for each key its offsets and values, in the order of the call."""

    records: dict[Key, tuple[tuple[int, JsonScalar], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedOperation:
    """`line` of the file `source` is where it ended, or where it began if no line ends it.

    `rebalanced` has the keys that came or went, for this consumer, while the operation ran. `index` counts the
    operations of the history from 0.
    """

    index: int
    process: str
    ending: Ending
    micro_operations: tuple[RecordedSend | RecordedPoll, ...]
    rebalanced: frozenset[Key] = frozenset()
    time_ms: float | None = None
    note: str = ""
    line: int = 0
    source: str = ""

    @property
    def sends(self) -> Iterable[RecordedSend]:
        return (one for one in self.micro_operations if isinstance(one, RecordedSend))

    @property
    def polls(self) -> Iterable[RecordedPoll]:
        return (one for one in self.micro_operations if isinstance(one, RecordedPoll))


class ConsumerChange(StrEnum):
    """The changes of a consumer's partitions between operations."""

    ASSIGN = "assign"
    """It took these keys and no others. A key that it had before goes on where it was."""
    SUBSCRIBE = "subscribe"
    """It subscribed to these topics and no others. The broker says which partitions it has."""
    SEEK = "seek"
    """It set its position in these keys."""
    FINAL = "final"
    """From here on it reads, from the start, what is left at the end. All operations that send have ended."""


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerStep:
    """`names` are keys, those of `subscribe` topics, and none for `final`."""

    change: ConsumerChange
    process: str
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class History:
    """The steps of a process are in the order in which it did them.

    `cut_off` names the files whose last line is not whole: what a killed process leaves of the line that it was writing.
    """

    steps: tuple[RecordedOperation | ConsumerStep, ...]
    cut_off: tuple[str, ...] = field(default=())

    @property
    def operations(self) -> Iterable[RecordedOperation]:
        return (step for step in self.steps if isinstance(step, RecordedOperation))
