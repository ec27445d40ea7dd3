"""Records histories in a test, with any client, in a form that survives a kill of the process that writes.

A send is in the file before it is sent, so every value that a reader finds has a writer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from oncelog.checking.history import JsonScalar, Key
from oncelog.testing.checker.lines import checked_key, checked_offset, checked_value


class HistoryWriter:
    """A file of one history, or of a part of it. It may be shared by threads; processes have a file each.

    Raises FileExistsError where the file is there already: a process that was started again writes a file of its own.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by close
        self._lock = Lock()

    def process(self, name: str) -> ProcessRecorder:
        """A process does one operation after the other: a producer, a consumer, or both. After a restart it gets another name."""
        return ProcessRecorder(name, self._write)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: Mapping[str, object]) -> None:
        text = json.dumps({**line, "time_ms": round(time.time() * 1000, 3)}, separators=(",", ":"), allow_nan=False)
        with self._lock:
            self._file.write(text.encode() + b"\n")


class ProcessRecorder:
    """Records what one process does."""

    def __init__(self, name: str, write: Callable[[Mapping[str, object]], None]) -> None:
        self._name = name
        self._write = write

    def assign(self, keys: Iterable[Key]) -> None:
        """The consumer took these keys, and no others."""
        self.write("assign", keys=sorted(keys))

    def subscribe(self, topics: Iterable[str]) -> None:
        self.write("subscribe", topics=sorted(topics))

    def seek(self, keys: Iterable[Key]) -> None:
        """The consumer set its position in these keys."""
        self.write("seek", keys=sorted(keys))

    def final(self) -> None:
        """From here on the process reads, from the start, what is left at the end."""
        self.write("final")

    def operation(self) -> OperationRecorder:
        """Begin an operation: a transaction, or one send or poll."""
        return OperationRecorder(self)

    def write(self, kind: str, **fields: object) -> None:
        self._write({"type": kind, "process": self._name, **fields})


class SendRecorder:
    """One send of an operation. A delivery callback, on whatever thread, says where it landed."""

    def __init__(self, key: Key, value: JsonScalar) -> None:
        self._key, self._value = key, value
        self._offset: int | None = None

    def landed(self, offset: int) -> None:
        """Record the offset of an acknowledgement. A negative one means that the producer did not learn it."""
        self._offset = offset if offset >= 0 else None

    def as_json(self) -> dict[str, object]:
        known: dict[str, object] = {"send": self._key, "value": self._value}
        return known if self._offset is None else {**known, "offset": self._offset}


class OperationRecorder:
    """One operation. Its end is unknown until `ok` or `failed` says otherwise, also when an exception leaves the block."""

    def __init__(self, process: ProcessRecorder) -> None:
        self._process = process
        self._micro_operations: list[SendRecorder | dict[str, Any]] = []
        self._rebalanced: set[Key] = set()
        self._has_ended = False

    def sending(self, key: Key, value: JsonScalar) -> SendRecorder:
        """Call it before the client's send. A value must be the only one of its key: add what makes a retry another.

        Raises ValueError for what a history cannot hold.
        """
        self._must_be_open()
        checked_key(key), checked_value(value)
        send = SendRecorder(key, value)
        self._process.write("invoke", micro_operations=[send.as_json()])
        self._micro_operations.append(send)
        return send

    def polled(self, records: Iterable[tuple[Key, int, JsonScalar]]) -> None:
        """Record the result of one poll: key, offset and value of each record, in its order. Raises ValueError as `sending`."""
        self._must_be_open()
        by_key: dict[Key, list[list[object]]] = {}
        for key, offset, value in records:
            by_key.setdefault(checked_key(key), []).append([checked_offset(offset), checked_value(value)])
        poll = {"poll": by_key}
        self._process.write("invoke", micro_operations=[poll])
        self._micro_operations.append(poll)

    def rebalanced(self, keys: Iterable[Key]) -> None:
        """These keys were assigned to the consumer, revoked or lost; its callbacks say so inside a poll."""
        self._must_be_open()
        moved = sorted(checked_key(key) for key in keys)
        self._process.write("invoke", rebalanced=moved)
        self._rebalanced.update(moved)

    def ok(self) -> None:
        """It happened: the commit, or the one send, was acknowledged."""
        self._end("ok", "")

    def failed(self, note: str = "") -> None:
        """It is known not to have happened: the transaction was aborted."""
        self._end("failed", note)

    def unknown(self, note: str = "") -> None:
        self._end("info", note)

    def __enter__(self) -> OperationRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._has_ended:
            self.unknown("" if error is None else f"{type(error).__name__}: {error}")

    def _end(self, kind: str, note: str) -> None:
        self._must_be_open()
        self._has_ended = True
        done = [one.as_json() if isinstance(one, SendRecorder) else one for one in self._micro_operations]
        fields: dict[str, object] = {"micro_operations": done}
        if self._rebalanced:
            fields["rebalanced"] = sorted(self._rebalanced)
        if note:
            fields["note"] = note.encode(errors="backslashreplace").decode()
        self._process.write(kind, **fields)

    def _must_be_open(self) -> None:
        if self._has_ended:
            raise ValueError("the operation has ended")
