"""How protocol logic talks to the world: generators that yield what they wait for.

A conversation is a generator. It yields one of the effects below, a transport carries it out, and the generator goes on
with the result. The same conversation therefore runs over blocking sockets, over asyncio and over a simulated network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from oncelog.client.errors import ClientError, ConnectionLost
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address

T = TypeVar("T")


class ConnectionUse(Enum):
    """The connections to one broker. It answers each in order, so what it holds back has one of its own."""

    PROMPT = "prompt"
    FETCHES = "fetches"
    REBALANCES = "rebalances"


class TicketState(Enum):
    WAITING = "waiting"
    ANSWERED = "answered"
    FAILED = "failed"


class Ticket:
    """One request on its way. It is answered once, or fails once."""

    __slots__ = ("_answer", "_error", "address", "deadline_ms", "lane", "on_done", "request", "state", "version")

    def __init__(self, address: Address, request: ApiRequest, lane: ConnectionUse = ConnectionUse.PROMPT) -> None:
        self.address = address
        self.request = request
        self.lane = lane
        self.state = TicketState.WAITING
        self.version = -1
        self.deadline_ms = float("inf")
        self.on_done: Any = None
        self._answer: Any = None
        self._error: ClientError | None = None

    @property
    def is_done(self) -> bool:
        return self.state is not TicketState.WAITING

    def is_late(self, now_ms: float) -> bool:
        """Whether its time is over without an answer. It fails when somebody waits for it the next time."""
        return self.state is TicketState.WAITING and now_ms >= self.deadline_ms

    def answer(self, message: Any) -> None:
        self._settle(TicketState.ANSWERED)
        self._answer = message
        if self.on_done is not None:
            self.on_done()

    def fail(self, error: ClientError) -> None:
        self._settle(TicketState.FAILED)
        self._error = error
        if self.on_done is not None:
            self.on_done()

    def result(self) -> Any:
        """The answering message. Raises ConnectionLost or UnsupportedVersion."""
        assert self.is_done, "the answer is not there yet"
        if self._error is not None:
            raise self._error
        return self._answer

    def _settle(self, state: TicketState) -> None:
        assert self.state is TicketState.WAITING, "a ticket is settled once"
        self.state = state


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request, connecting first if need be; the result is a Ticket. A failure shows in the ticket.

    Without an answer in `timeout_ms` it has failed. Connecting is no part of that, but takes no longer either.
    """

    address: Address
    request: ApiRequest
    timeout_ms: float | None = None
    lane: ConnectionUse = ConnectionUse.PROMPT


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on when at least one of the tickets is done or the time is over; the result is the list of those done.

    A ticket that is late fails, also where another one is done already and where `timeout_ms` is 0: nobody else sees to it.
    With `until_woken`, a call of the transport's wake() ends it too.
    """

    tickets: tuple[Ticket, ...]
    timeout_ms: float | None = None
    until_woken: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Go on after a time between the two, drawn evenly."""

    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Now:
    """The result is the monotonic time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The result is a number between the two, drawn evenly."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Handshake:
    """Connect if need be, within this time; the result is the broker's OfferedVersions. Raises ConnectionLost."""

    address: Address
    timeout_ms: float


@dataclass(frozen=True, slots=True)
class InFlight:
    """The result is how many requests are without an answer at each Address, as a Counter."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The result is the time in milliseconds since 1970, as record timestamps count it."""


@dataclass(frozen=True, slots=True)
class Call:
    """Run the user's own code, awaited where it is to be. It may begin other conversations of the same client."""

    function: Callable[[], object]


Effect: TypeAlias = Send | Wait | Sleep | Now | Draw | Handshake | InFlight | WallClock | Call
Conversation: TypeAlias = Generator[Effect, Any, T]


def ask(address: Address, request: ApiRequest, timeout_ms: float | None = None) -> Conversation[Any]:
    """Send a request and wait for its answer. Raises ConnectionLost or UnsupportedVersion."""
    ticket: Ticket = yield Send(address, request, timeout_ms)
    while not ticket.is_done:
        yield Wait((ticket,))
    return ticket.result()


def ask_all(asked: Iterable[tuple[Address, ApiRequest]], timeout_ms: float | None = None) -> Conversation[list[Ticket]]:
    """Send several requests at once and wait until every one is answered or has failed."""
    tickets: list[Ticket] = []
    for address, request in asked:
        ticket: Ticket = yield Send(address, request, timeout_ms)
        tickets.append(ticket)
    while waiting := tuple(ticket for ticket in tickets if not ticket.is_done):
        yield Wait(waiting)
    return tickets


def was_sent(error: ClientError) -> bool:
    """Whether a request that failed so may have been carried out."""
    return isinstance(error, ConnectionLost) and error.sent
