"""One line of a history file, checked field by field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from oncelog.checking.history import ConsumerChange, JsonScalar, Key, RecordedPoll, RecordedSend

INVOKE = "invoke"
ENDINGS = ("ok", "failed", "info")
_OPERATION_FIELDS = frozenset({"type", "process", "micro_operations", "rebalanced", "time_ms", "note"})
_CHANGES = {
    ConsumerChange.ASSIGN: "keys",
    ConsumerChange.SUBSCRIBE: "topics",
    ConsumerChange.SEEK: "keys",
    ConsumerChange.FINAL: None,
}
_KEY = re.compile(r".+-\d+", re.DOTALL)
_HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")

Line = dict[str, Any]


class MalformedLineError(ValueError):
    """Says why a line cannot be part of a history."""


def refuse(reason: str) -> NoReturn:
    raise MalformedLineError(reason)


def parse(text: bytes) -> Line:
    """A line as an object whose fields are those of its type. Raises MalformedLineError."""
    try:
        line = json.loads(text, parse_constant=lambda name: refuse(f"{name} is no JSON value"))
        if _HALF_A_PAIR.search(text):
            json.dumps(line, ensure_ascii=False).encode()
    except MalformedLineError:
        raise
    except UnicodeEncodeError:
        refuse("a string has half of a surrogate pair")
    except RecursionError:
        refuse("it is nested too deep")
    except ValueError:
        refuse("it is not JSON")
    if not isinstance(line, dict):
        refuse("it is not a JSON object")
    kind, process = line.get("type"), line.get("process")
    if not isinstance(process, str) or not process:
        refuse('"process" has to be a string that is not empty')
    if kind == INVOKE or kind in ENDINGS:
        _refuse_others(line, _OPERATION_FIELDS)
    elif isinstance(kind, str) and kind in _CHANGES:
        field = _CHANGES[ConsumerChange(kind)]
        _refuse_others(line, frozenset({"type", "process", "time_ms", "note"} | ({field} if field else set())))
    else:
        refuse(f'"type" has to be one of {", ".join((INVOKE, *ENDINGS, *_CHANGES))}')
    return line


def names_of(line: Line) -> frozenset[str]:
    """The keys or topics of a line about a consumer's partitions."""
    change = ConsumerChange(line["type"])
    field = _CHANGES[change]
    if field is None:
        return frozenset()
    return _strings(line.get(field), field, checked_key if field == "keys" else _topic)


def micro_operations_of(line: Line) -> tuple[RecordedSend | RecordedPoll, ...]:
    listed = line["micro_operations"]
    if not isinstance(listed, list):
        refuse('"micro_operations" has to be a list')
    return tuple([_micro_operation(one) for one in listed])


def rebalanced_of(line: Line) -> frozenset[Key]:
    return _strings(line["rebalanced"], "rebalanced", checked_key) if "rebalanced" in line else frozenset()


def time_of(line: Line) -> float | None:
    time_ms = line.get("time_ms")
    if time_ms is not None and (isinstance(time_ms, bool) or not isinstance(time_ms, int | float)):
        refuse('"time_ms" has to be a number')
    return time_ms


def note_of(line: Line) -> str:
    note = line.get("note", "")
    return note if isinstance(note, str) else refuse('"note" has to be a string')


def _micro_operation(one: object) -> RecordedSend | RecordedPoll:
    if not isinstance(one, dict):
        refuse("a micro-operation is not an object")
    if "send" in one:
        _refuse_others(one, frozenset({"send", "value", "offset"}))
        if "value" not in one:
            refuse('a send has no "value"')
        offset = one.get("offset")
        return RecordedSend(
            checked_key(one["send"]), checked_value(one["value"]), None if offset is None else checked_offset(offset)
        )
    if "poll" not in one:
        refuse('a micro-operation is neither a "send" nor a "poll"')
    _refuse_others(one, frozenset({"poll"}))
    polled = one["poll"]
    if not isinstance(polled, dict):
        refuse('a "poll" has to be an object with keys')
    return RecordedPoll({checked_key(key): _records(records) for key, records in polled.items()})


def _records(listed: object) -> tuple[tuple[int, JsonScalar], ...]:
    if not isinstance(listed, list):
        refuse("what a poll returned for a key has to be a list")
    return tuple([_record(pair) for pair in listed])


def _record(pair: object) -> tuple[int, JsonScalar]:
    if not isinstance(pair, list) or len(pair) != 2:
        refuse("a polled record has to be [offset, value]")
    return checked_offset(pair[0]), checked_value(pair[1])


def checked_offset(offset: object) -> int:
    if type(offset) is not int or not 0 <= offset < 1 << 63:
        refuse(f"{_cut(offset)} is no offset")
    return offset


def checked_value(value: object) -> JsonScalar:
    if isinstance(value, float) and not math.isfinite(value):
        refuse("a value has to be finite")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse("a value has to be text, without half of a surrogate pair")
    if value is None or isinstance(value, str | int | float):
        return value
    refuse("a value has to be a string, a number, true, false or null")


def checked_key(key: object) -> Key:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        refuse(f"{_cut(key)} is no key: it has to be topic-partition, as orders-0")
    return key


def _topic(topic: object) -> str:
    return topic if isinstance(topic, str) and topic else refuse("a topic has to be a string that is not empty")


def _strings(listed: object, field: str, one: Callable[[object], str]) -> frozenset[str]:
    if not isinstance(listed, list):
        refuse(f'"{field}" has to be a list')
    return frozenset(one(item) for item in listed)


def _refuse_others(line: dict[str, object], known: frozenset[str]) -> None:
    if not line.keys() <= known:
        other = next(name for name in line if name not in known)
        refuse(f"it has the field {_cut(other)}, which is not known there")


def _cut(value: object) -> str:
    return json.dumps(value, default=repr)[:80]
