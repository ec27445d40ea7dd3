"""One request on its way through the broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from oncelog.coordination import Promise
from oncelog.wire import construct, message_class, message_module

MILLISECOND = timedelta(milliseconds=1)
NO_THROTTLE = timedelta(0)


class Peer(Protocol):
    """The connection that a request came on."""

    @property
    def number(self) -> int:
        """Grows in the order in which connections are accepted."""

    @property
    def listener(self) -> str:
        """The name of the one that it came to."""

    @property
    def principal(self) -> str | None:
        """The authenticated principal, as User:NAME; None at a listener that authenticates nobody."""

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_port(self) -> int: ...

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        """Have memory for an answer to this peer before it is read: released with how much there is.

        That is from `least_bytes` to `most_bytes`. It is given back as the peer takes what it is answered.
        """
        ...

    def close(self, reason: str | None = None) -> None: ...


@dataclass(slots=True)
class Request:
    api_key: int
    version: int
    client_id: str | None
    body: Any
    connection: Peer
    arrived_ms: float
    """On the clock that never goes back."""

    @property
    def types(self) -> Any:
        """The module with the classes of this request's answer."""
        return message_module(self.api_key, self.version, "response")

    def answer(self, **values: Any) -> Any:
        """The answer message in the request's version, without the fields that this version does not have."""
        return construct(message_class(self.api_key, self.version, "response"), throttle_time=NO_THROTTLE, **values)


def time_or_none(timestamp_ms: int) -> datetime | None:
    """A time as messages carry it; None, which travels as -1, when there is none."""
    return None if timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def milliseconds(duration: timedelta) -> int:
    """A duration as the codec hands it over."""
    return duration // MILLISECOND
