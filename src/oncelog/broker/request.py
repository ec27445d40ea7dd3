"""One request on its way through the broker, and the kinds of reply a handler may give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from oncelog.coordination import Parked
from oncelog.wire import construct, message_class, message_module

NO_THROTTLE = timedelta(0)


class Connection(Protocol):
    """What the broker knows of the connection that a request came on."""

    @property
    def peer_host(self) -> str: ...

    def close(self, reason: str | None = None) -> None: ...


@dataclass(slots=True)
class Request:
    api_key: int
    version: int
    client_id: str | None
    body: Any
    connection: Connection

    @property
    def types(self) -> Any:
        """The module with the classes of this request's answer."""
        return message_module(self.api_key, self.version, "response")

    def answer(self, **values: Any) -> Any:
        """The answer message in the request's version, without the fields that this version does not have."""
        return construct(message_class(self.api_key, self.version, "response"), throttle_time=NO_THROTTLE, **values)


Reply = Any | Parked[Any]
"""A message, a parked message, or None when the client asked for no answer."""


def reply_when(waiting: Parked[Any], answer: Callable[[], Reply]) -> Reply:
    """Call `answer` once `waiting` is released, and reply with what it returns, which may be parked in its turn."""
    if waiting.is_released:
        return answer()
    reply: Parked[Any] = Parked()

    def released(_: Any) -> None:
        given = answer()
        if isinstance(given, Parked):
            given.then(reply.release)
        else:
            reply.release(given)

    waiting.then(released)
    return reply


def time_or_none(timestamp_ms: int) -> datetime | None:
    """A time as messages carry it; None, which travels as -1, when there is none."""
    return None if timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
