"""The log lines about single requests: those that were refused, and those that took long.

Of a request they have the client id, the group and the transactional id; of its answer the topics, partitions, groups and
resources that were refused, with the message that the client got. Nothing else that a request carries is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple
from uuid import UUID

from oncelog.broker.request import Request
from oncelog.broker.storage.altering import ResourceType
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.requests")

SLOW_MS = 1000
WAITS_FOR_OTHERS = frozenset({"Fetch", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"})
"""Requests that wait for records or for members: how long is not the broker's doing."""
SUBJECTS = (
    "transactional_id",
    "group_id",
    "key",
    "mechanism",
    "broker_id",
    "controller_id",
    "session_id",
    "transactional_id_pattern",
)
"""Fields of a request that name its subject."""
TOPIC_NAMES = ("name", "topic", "topic_name", "topic_id")
PARTITION_NAMES = ("partition_index", "index", "partition", "partition_id")
OTHER_NAMES = ("group_id", "transactional_id", "key", "member_id", "producer_id", "user", "feature", "log_dir")
"""Fields of an answer's item that name its subject. For topics and partitions the first with a value counts."""
NOT_TOLD = frozenset({ErrorCode.member_id_required, ErrorCode.topic_already_exists})
"""Errors that a client gets in the course of things: it takes the id in the answer, or the topic that is there."""
TEXT_MAX, SUBJECTS_MAX = 200, 3
NameOf = Callable[[UUID], str | None]


class RefusedItem(NamedTuple):
    """One error of an answer, what it is said of, and the words for it; both are empty where the answer has none."""

    error: ErrorCode
    subject: str
    message: str


def is_logged() -> bool:
    """Looking through every answer is worth it only then."""
    return logger.isEnabledFor(logging.INFO)


def log_answer(api: str, request: Request, answer: Any, took_ms: float, name_of: NameOf) -> None:
    """`name_of` knows the name of a topic by its id, as long as there is one."""
    found = list(refusals_in(answer, name_of))
    if found:
        level = logging.DEBUG if all(one.error.retriable or one.error in NOT_TOLD for one in found) else logging.INFO
        if logger.isEnabledFor(level):
            logger.log(level, "%s was refused: %s", _who(api, request), _told(found))
    if took_ms >= SLOW_MS and api not in WAITS_FOR_OTHERS:
        logger.info("%s took %d ms", _who(api, request), took_ms)


def refusals_in(answer: Any, name_of: NameOf) -> Iterator[RefusedItem]:
    """The errors of an answer, wherever in it they are."""
    # An answer has fields of the same names as its items, and they are no subject: a group's new member has its id there.
    return _refusals(answer, "", name_of, is_item=False)


def _refusals(value: Any, above: str, name_of: NameOf, *, is_item: bool) -> Iterator[RefusedItem]:
    if isinstance(value, tuple):
        for item in value:
            yield from _refusals(item, above, name_of, is_item=True)
    elif is_dataclass(value):
        subject: str | None = None
        for field in fields(value):
            inner = getattr(value, field.name)
            if isinstance(inner, ErrorCode):
                if inner is not ErrorCode.none:
                    subject = subject if subject is not None else _subject(value, above, name_of, is_item=is_item)
                    yield RefusedItem(inner, subject, _shown(getattr(value, "error_message", None) or ""))
            elif isinstance(inner, tuple) or is_dataclass(inner):
                subject = subject if subject is not None else _subject(value, above, name_of, is_item=is_item)
                yield from _refusals(inner, subject, name_of, is_item=False)


def _subject(item: Any, above: str, name_of: NameOf, *, is_item: bool) -> str:
    """The name of an item of an answer. A partition is named with its topic."""
    if not is_item:
        return above
    said = _named(item, name_of)
    partition = _first(item, PARTITION_NAMES)
    if partition is None:
        return f"{above}, {said}" if above and said else said or above
    topic, around = (said, above) if said else above.rpartition(", ")[::-2]
    return f"{around}, {topic}-{partition}" if around else f"{topic}-{partition}"


def _named(item: Any, name_of: NameOf) -> str:
    """The topic that an item names, or the resource, or whatever else."""
    if hasattr(item, "resource_type"):
        return f"{_kind(item.resource_type)} {_shown(item.resource_name)}"
    topic = _first(item, TOPIC_NAMES)
    if isinstance(topic, UUID):
        return name_of(topic) or f"topic id {topic}"
    if topic is not None:
        return _shown(topic)
    named = ((name, getattr(item, name, None)) for name in OTHER_NAMES)
    return " ".join(f"{name.replace('_', ' ')} {_shown(str(value))!r}" for name, value in named if value is not None)


def _first(item: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := getattr(item, name, None)) is not None), None)


def _who(api: str, request: Request) -> str:
    about = [
        f" for {name.replace('_', ' ')} {value!r}" for name in SUBJECTS if (value := getattr(request.body, name, None))
    ]
    return f"{api} v{request.version} of client {request.client_id!r} at {request.connection.peer_host}{''.join(about)}"


def _told(found: list[RefusedItem]) -> str:
    """Each error once, with the first of those that it is said of."""
    by_error: dict[ErrorCode, list[RefusedItem]] = {}
    for one in found:
        by_error.setdefault(one.error, []).append(one)
    return "; ".join(_told_of(error, some) for error, some in by_error.items())


def _told_of(error: ErrorCode, some: list[RefusedItem]) -> str:
    subjects = list(dict.fromkeys(one.subject for one in some if one.subject))
    named = ", ".join(subjects[:SUBJECTS_MAX])
    more = f" and {len(some) - SUBJECTS_MAX} more" if len(some) > SUBJECTS_MAX else ""
    message = next((one.message for one in some if one.message), "")
    count = f" x {len(some)}" if len(some) > 1 else ""
    return f"{error.name.upper()}{count}{f' for {named}{more}' if named else ''}{f' ({message})' if message else ''}"


def _kind(number: int) -> str:
    try:
        return ResourceType(number).words
    except ValueError:
        return f"resource of type {number}"


def _shown(text: str) -> str:
    """A client chooses names, and no name makes a line of its own, or a long one."""
    cut = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
    return cut if cut.isprintable() else repr(cut)
