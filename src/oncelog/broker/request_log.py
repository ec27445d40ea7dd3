"""What the log says of single requests: those that were refused, and those that took long.

Nothing of what a request carries is said but who asked and whom it is about: its client id, group and transactional id.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.requests")

SLOW_MS = 1000
WAITS_FOR_OTHERS = frozenset({"Fetch", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"})
"""Requests that wait for records or for members: how long is not the broker's doing."""
SUBJECTS = ("transactional_id", "group_id")


def is_logged() -> bool:
    """Looking through every answer is worth it only then."""
    return logger.isEnabledFor(logging.INFO)


def log_answer(api: str, request: Request, answer: Any, took_ms: float) -> None:
    errors = errors_in(answer)
    if errors:
        told = ", ".join(
            f"{error.name.upper()} x {count}" if count > 1 else error.name.upper() for error, count in errors.items()
        )
        level = logging.DEBUG if all(error.retriable for error in errors) else logging.INFO
        logger.log(level, "%s was refused: %s", _who(api, request), told)
    if took_ms >= SLOW_MS and api not in WAITS_FOR_OTHERS:
        logger.info("%s took %d ms", _who(api, request), took_ms)


def errors_in(message: Any) -> Counter[ErrorCode]:
    """The error codes of an answer, wherever in it they are, and how many partitions or topics each is said of."""
    found: Counter[ErrorCode] = Counter()
    _collect(message, found)
    return found


def _collect(value: Any, found: Counter[ErrorCode]) -> None:
    if isinstance(value, ErrorCode):
        if value is not ErrorCode.none:
            found[value] += 1
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)
    elif is_dataclass(value):
        for field in fields(value):
            _collect(getattr(value, field.name), found)


def _who(api: str, request: Request) -> str:
    about = [
        f" for {name.replace('_', ' ')} {value!r}" for name in SUBJECTS if (value := getattr(request.body, name, None))
    ]
    return f"{api} v{request.version} of client {request.client_id!r} at {request.connection.peer_host}{''.join(about)}"
