"""Histories for tests, line by line: the shortest way to write one that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oncelog.testing.checker import Anomaly, CheckReport, History, check, read_history

Line = dict[str, Any]


def send(value, offset=None, key="x-0"):
    return {"send": key, "value": value, "offset": offset}


def poll(*records, key="x-0"):
    return {"poll": {key: [list(record) for record in records]}}


def operation(process, ending, *micro_operations, **fields) -> Line:
    return {"type": ending, "process": process, "micro_operations": list(micro_operations), **fields}


def ok(process, *micro_operations, **fields) -> Line:
    return operation(process, "ok", *micro_operations, **fields)


def failed(process, *micro_operations, **fields) -> Line:
    return operation(process, "failed", *micro_operations, **fields)


def info(process, *micro_operations, **fields) -> Line:
    return operation(process, "info", *micro_operations, **fields)


def assign(process, *keys) -> Line:
    return {"type": "assign", "process": process, "keys": list(keys or ("x-0",))}


def subscribe(process, *topics) -> Line:
    return {"type": "subscribe", "process": process, "topics": list(topics or ("x",))}


def seek(process, *keys) -> Line:
    return {"type": "seek", "process": process, "keys": list(keys or ("x-0",))}


def final(process) -> Line:
    return {"type": "final", "process": process}


def written(directory: Path, lines: Iterable[Line], name: str = "history.jsonl") -> Path:
    path = directory / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def history(directory: Path, *lines: Line) -> History:
    return read_history([written(directory, lines)])


def judged(directory: Path, *lines: Line) -> CheckReport:
    return check(history(directory, *lines))


def found(report: CheckReport) -> set[Anomaly]:
    return {anomaly for anomaly, count in report.found.items() if count}
