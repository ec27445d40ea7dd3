"""Reads histories from files of JSON Lines, as HistoryWriter writes them and as docs/checker.md describes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.checking.anomalies import shown
from oncelog.checking.history import (
    ConsumerChange,
    ConsumerStep,
    Ending,
    History,
    Identity,
    Key,
    RecordedOperation,
    RecordedPoll,
    RecordedSend,
    identity_of,
)
from oncelog.testing.checker.lines import (
    ENDINGS,
    INVOKE,
    Line,
    MalformedLineError,
    micro_operations_of,
    names_of,
    note_of,
    parse,
    rebalanced_of,
    refuse,
    time_of,
)


class HistoryError(Exception):
    """A file is not a history: its name, the line and the reason."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source} line {line} is not a line of a history: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


@dataclass(slots=True)
class _OpenOperation:
    """An operation that has not ended, from its invoke lines."""

    line: int
    source: str
    micro_operations: list[RecordedSend | RecordedPoll] = field(default_factory=list)
    rebalanced: set[Key] = field(default_factory=set)
    time_ms: float | None = None
    note: str = ""


def read_history(paths: Sequence[Path]) -> History:
    """Read one history from one or more files; a process may have lines in several, in the order of the files.

    Raises HistoryError, and OSError where a file cannot be read. A last line that is cut off is left out: a process that
    is killed while it writes leaves one.
    """
    reader = _HistoryReader()
    for path in paths:
        with open(path, "rb") as file:
            reader.read(file, str(path), is_one_of_several=len(paths) > 1)
    return reader.history()


class _HistoryReader:
    """Puts lines together to operations."""

    def __init__(self) -> None:
        self._steps: list[RecordedOperation | ConsumerStep] = []
        self._open: dict[str, _OpenOperation] = {}
        self._sent: dict[Key, dict[Identity, tuple[str, int]]] = {}
        self._operations = 0
        self._cut_off: list[str] = []

    def read(self, lines: Iterable[bytes], source: str, *, is_one_of_several: bool) -> None:
        """Raises HistoryError."""
        for number, text in enumerate(lines, 1):
            if text.isspace():
                continue
            try:
                try:
                    line = parse(text)
                except MalformedLineError:
                    if text.endswith(b"\n"):
                        raise
                    self._cut_off.append(f"{source} line {number}")
                    continue
                self._take(line, number, source if is_one_of_several else "")
            except MalformedLineError as error:
                raise HistoryError(source, number, str(error)) from None

    def history(self) -> History:
        """Operations that no line ended have an unknown end."""
        for process, begun in self._open.items():
            self._add(process, Ending.UNKNOWN, begun, tuple(begun.micro_operations))
        self._open = {}
        return History(tuple(self._steps), tuple(self._cut_off))

    def _take(self, line: Line, number: int, source: str) -> None:
        process: str = sys.intern(line["process"])
        kind = line["type"]
        if kind == INVOKE:
            self._extend(process, line, number, source)
        elif kind in ENDINGS:
            self._end(process, line, number, source)
        else:
            time_of(line), note_of(line)
            self._steps.append(ConsumerStep(ConsumerChange(kind), process, names_of(line)))

    def _extend(self, process: str, line: Line, number: int, source: str) -> None:
        begun = self._open.get(process)
        if begun is None:
            begun = self._open[process] = _OpenOperation(number, source)
        micro_operations = micro_operations_of(line) if "micro_operations" in line else ()
        self._note_sends(micro_operations, process, number)
        begun.micro_operations += micro_operations
        begun.rebalanced |= rebalanced_of(line)
        begun.time_ms = begun.time_ms if begun.time_ms is not None else time_of(line)
        begun.note = note_of(line) or begun.note

    def _end(self, process: str, line: Line, number: int, source: str) -> None:
        begun = self._open.pop(process, None)
        if begun is None:
            if "micro_operations" not in line:
                refuse('it ends an operation that no line began, and has no "micro_operations"')
            begun = _OpenOperation(number, source)
        micro_operations = tuple(begun.micro_operations)
        if "micro_operations" in line:
            named = [one for one in micro_operations if isinstance(one, RecordedSend)]
            for send in named:
                del self._sent[send.key][identity_of(send.value)]
            micro_operations = micro_operations_of(line)
            self._note_sends(micro_operations, process, number)
            for send in named:
                if identity_of(send.value) not in self._sent[send.key]:
                    refuse(f"it leaves out the send of {shown(send.value)} to {send.key} that an invoke line has")
        begun.line, begun.source = number, source
        begun.rebalanced |= rebalanced_of(line)
        time_ms = time_of(line)
        begun.time_ms = begun.time_ms if time_ms is None else time_ms
        begun.note = note_of(line) or begun.note
        self._add(process, Ending(line["type"]), begun, micro_operations)

    def _note_sends(self, micro_operations: Iterable[RecordedSend | RecordedPoll], process: str, number: int) -> None:
        """Refuse a value that was sent to its key before: it could not be told which send was read."""
        for one in micro_operations:
            if isinstance(one, RecordedSend):
                sent, identity = self._sent.setdefault(one.key, {}), identity_of(one.value)
                if identity in sent:
                    before, line = sent[identity]
                    refuse(f"{shown(one.value)} was sent to {one.key} before, by {before} at line {line}")
                sent[identity] = (process, number)

    def _add(
        self,
        process: str,
        ending: Ending,
        begun: _OpenOperation,
        micro_operations: tuple[RecordedSend | RecordedPoll, ...],
    ) -> None:
        self._steps.append(
            RecordedOperation(
                index=self._operations,
                process=process,
                ending=ending,
                micro_operations=micro_operations,
                rebalanced=frozenset(begun.rebalanced),
                time_ms=begun.time_ms,
                note=begun.note,
                line=begun.line,
                source=begun.source,
            )
        )
        self._operations += 1
