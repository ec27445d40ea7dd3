"""The anomalies by name, which of them count as faults, and the words of a report.

They are those of Jepsen's Kafka workload (jepsen.tests.kafka), with Adya's names for G0, G1a and G1c.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog.checking.history import Ending, JsonScalar, Key, RecordedOperation


class CountsAsFault(Enum):
    """When an anomaly breaks a promise of Kafka's."""

    ALWAYS = "always"
    WITH_ASSIGN = "with assign"
    """With subscribe a rebalance may move a position at any time."""
    NEVER = "never"


class Anomaly(Enum):
    """Its name, and when it counts as a fault."""

    INCONSISTENT_OFFSETS = ("inconsistent offsets", CountsAsFault.ALWAYS)
    DUPLICATE = ("duplicate", CountsAsFault.ALWAYS)
    ABORTED_READ = ("aborted read (G1a)", CountsAsFault.ALWAYS)
    LOST_WRITE = ("lost write", CountsAsFault.ALWAYS)
    UNSEEN = ("unseen", CountsAsFault.ALWAYS)
    PRECOMMITTED_READ = ("precommitted read", CountsAsFault.ALWAYS)
    POLL_SKIP = ("poll skip", CountsAsFault.WITH_ASSIGN)
    NONMONOTONIC_POLL = ("nonmonotonic poll", CountsAsFault.WITH_ASSIGN)
    INTERNAL_POLL_SKIP = ("internal poll skip", CountsAsFault.ALWAYS)
    INTERNAL_NONMONOTONIC_POLL = ("internal nonmonotonic poll", CountsAsFault.ALWAYS)
    NONMONOTONIC_SEND = ("nonmonotonic send", CountsAsFault.ALWAYS)
    INTERNAL_NONMONOTONIC_SEND = ("internal nonmonotonic send", CountsAsFault.ALWAYS)
    CIRCULAR_INFORMATION_FLOW = ("circular information flow (G1c)", CountsAsFault.ALWAYS)
    INTERNAL_SEND_SKIP = ("internal send skip", CountsAsFault.NEVER)
    WRITE_CYCLE = ("write cycle (G0)", CountsAsFault.NEVER)
    UNKNOWN_WRITER = ("value that no operation sent", CountsAsFault.NEVER)

    def __init__(self, label: str, counts_as_fault: CountsAsFault) -> None:
        self.label = label
        self.counts_as_fault = counts_as_fault


@dataclass(frozen=True, slots=True)
class AnomalyFinding:
    """One anomaly. `key` is None for a cycle; `sentence` says it for people."""

    anomaly: Anomaly
    is_fault: bool
    key: Key | None
    offsets: tuple[int, ...]
    values: tuple[JsonScalar, ...]
    operations: tuple[RecordedOperation, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`found` and `faults` count all; `examples` are the first of each anomaly, faults before others.

    Without a final phase in the history `is_unseen_judged` is false.
    """

    operations: int
    found: Mapping[Anomaly, int]
    faults: Mapping[Anomaly, int]
    examples: tuple[AnomalyFinding, ...]
    is_unseen_judged: bool
    cut_off: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not any(self.faults.values())


class Findings:
    """Counts every finding, and keeps the first few of each kind: a broken log may have millions."""

    def __init__(self, examples_max: int) -> None:
        self._examples_max = examples_max
        self._kept: list[AnomalyFinding] = []
        self.found: Counter[tuple[Anomaly, bool]] = Counter()

    def count(self, anomaly: Anomaly, *, is_fault: bool) -> bool:
        """True where the finding is to be kept as an example."""
        self.found[anomaly, is_fault] += 1
        return self.found[anomaly, is_fault] <= self._examples_max

    def keep(self, finding: AnomalyFinding) -> None:
        self._kept.append(finding)

    def report(self, operations: int, *, is_unseen_judged: bool, cut_off: tuple[str, ...]) -> CheckReport:
        faults = {anomaly: self.found[anomaly, True] for anomaly in Anomaly}
        found = {anomaly: faults[anomaly] + self.found[anomaly, False] for anomaly in Anomaly}
        order = {anomaly: number for number, anomaly in enumerate(Anomaly)}
        examples = sorted(self._kept, key=lambda one: (order[one.anomaly], not one.is_fault))
        shown: Counter[Anomaly] = Counter()
        chosen = []
        for example in examples:
            shown[example.anomaly] += 1
            if shown[example.anomaly] <= self._examples_max:
                chosen.append(example)
        return CheckReport(operations, found, faults, tuple(chosen), is_unseen_judged, cut_off)


NAMED_MAX = 3
ENDINGS = {Ending.OK: "ended ok", Ending.FAILED: "failed", Ending.UNKNOWN: "has an unknown end"}


def shown(value: JsonScalar) -> str:
    return json.dumps(value, ensure_ascii=False)


def place(operation: RecordedOperation) -> str:
    """The line of the history that ends the operation; an operation that was not read from a file has a number alone."""
    if not operation.line:
        return f"operation {operation.index}"
    return f"{operation.source} line {operation.line}" if operation.source else f"line {operation.line}"


def by(operation: RecordedOperation) -> str:
    return f"{operation.process} ({place(operation)})"


def outcome_of(operation: RecordedOperation) -> str:
    return f"the operation of {by(operation)}, which {ENDINGS[operation.ending]}"


def listed(records: Iterable[tuple[int, JsonScalar]], count: int) -> str:
    """The first few of `count` records."""
    return ", ".join(f"{shown(value)} at {offset}" for offset, value in records) + and_more(count)


def and_more(count: int) -> str:
    """The words after the first few of `count`."""
    return f" and {count - NAMED_MAX} more" if count > NAMED_MAX else ""
