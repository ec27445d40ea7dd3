"""Flows: the client's coroutines. They await the effects below, and nothing else.

A transport carries out each effect, and the flow goes on with the result. The same flow therefore runs over blocking
sockets, over asyncio and over a simulated network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from oncelog.client.errors import ClientError, ConnectionLost
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address
from oncelog.wire.offered_versions import OfferedVersions

T = TypeVar("T")


class ConnectionUse(Enum):
    """The connections to one broker. It answers each in order, so what it holds back has one of its own."""

    PROMPT = "prompt"
    FETCHES = "fetches"
    REBALANCES = "rebalances"


class RequestState(Enum):
    WAITING = "waiting"
    ANSWERED = "answered"
    FAILED = "failed"


class PendingRequest:
    """One request in flight. It is answered once, or fails once."""

    __slots__ = ("_answer", "_error", "address", "deadline_ms", "on_done", "request", "state", "use", "version")

    def __init__(self, address: Address, request: ApiRequest, use: ConnectionUse = ConnectionUse.PROMPT) -> None:
        self.address = address
        self.request = request
        self.use = use
        self.state = RequestState.WAITING
        self.version = -1
        self.deadline_ms = float("inf")
        self.on_done: Any = None
        self._answer: Any = None
        self._error: ClientError | None = None

    @property
    def is_done(self) -> bool:
        return self.state is not RequestState.WAITING

    def is_late(self, now_ms: float) -> bool:
        """True if its time is over without an answer. The next wait for it makes it fail."""
        return self.state is RequestState.WAITING and now_ms >= self.deadline_ms

    def answer(self, message: Any) -> None:
        self._complete(RequestState.ANSWERED)
        self._answer = message
        if self.on_done is not None:
            self.on_done()

    def fail(self, error: ClientError) -> None:
        self._complete(RequestState.FAILED)
        self._error = error
        if self.on_done is not None:
            self.on_done()

    def result(self) -> Any:
        """The answering message. Raises ConnectionLost or UnsupportedVersion."""
        assert self.is_done, "the answer is not there yet"
        if self._error is not None:
            raise self._error
        return self._answer

    def _complete(self, state: RequestState) -> None:
        assert self.state is RequestState.WAITING, "a request is completed once"
        self.state = state


class Yielded(Generic[T]):
    """A request to the transport. `await` hands it over, and returns the result."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T]:
        result: T = yield self
        return result


@dataclass(frozen=True, slots=True)
class Send(Yielded[PendingRequest]):
    """Send a request, connecting first if need be. The result is the PendingRequest, which has a failure, too.

    Without an answer in `timeout_ms` it has failed. Connecting is no part of that, but takes no longer either.
    """

    address: Address
    request: ApiRequest
    timeout_ms: float | None = None
    use: ConnectionUse = ConnectionUse.PROMPT


@dataclass(frozen=True, slots=True)
class Wait(Yielded[list[PendingRequest]]):
    """Go on when at least one of the requests is done or the time is over. The result is the list of those done.

    A request that is late fails, even where another one is done already or `timeout_ms` is 0: nothing else makes it fail.
    With `until_woken`, a call of the transport's wake() ends it too.
    """

    awaited: tuple[PendingRequest, ...]
    timeout_ms: float | None = None
    until_woken: bool = False


@dataclass(frozen=True, slots=True)
class Sleep(Yielded[None]):
    """Go on after a time between the two, drawn evenly."""

    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Now(Yielded[float]):
    """The result is the monotonic time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Draw(Yielded[float]):
    """The result is a number between the two, drawn evenly."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Handshake(Yielded[OfferedVersions]):
    """Connect if need be, within this time; the result is the broker's OfferedVersions. Raises ConnectionLost."""

    address: Address
    timeout_ms: float


@dataclass(frozen=True, slots=True)
class InFlight(Yielded[Counter[Address]]):
    """The result is how many requests are without an answer at each Address, as a Counter."""


@dataclass(frozen=True, slots=True)
class WallClock(Yielded[int]):
    """The result is the time in milliseconds since 1970, as record timestamps count it."""


@dataclass(frozen=True, slots=True)
class Callback(Yielded[object]):
    """Run the user's own code, awaited where it is to be. It may begin other flows of the same client."""

    function: Callable[[], object]


Effect: TypeAlias = Send | Wait | Sleep | Now | Draw | Handshake | InFlight | WallClock | Callback
Flow: TypeAlias = Coroutine[Any, Any, T]


async def ask(address: Address, request: ApiRequest, timeout_ms: float | None = None) -> Any:
    """Send a request and wait for its answer. Raises ConnectionLost or UnsupportedVersion."""
    pending = await Send(address, request, timeout_ms)
    while not pending.is_done:
        await Wait((pending,))
    return pending.result()


async def ask_all(asked: Iterable[tuple[Address, ApiRequest]], timeout_ms: float | None = None) -> list[PendingRequest]:
    """Send several requests at once and wait until every one is answered or has failed."""
    awaited: list[PendingRequest] = []
    for address, request in asked:
        pending = await Send(address, request, timeout_ms)
        awaited.append(pending)
    while waiting := tuple(pending for pending in awaited if not pending.is_done):
        await Wait(waiting)
    return awaited


def was_sent(error: ClientError) -> bool:
    """True if a request that failed so may have been carried out."""
    return isinstance(error, ConnectionLost) and error.sent


class Beside:
    """Carries a flow on whenever `advance` is called, as far as it comes without waiting.

    A wait meanwhile includes its `awaited` requests, and ends at `until_ms` at the latest.
    """

    def __init__(self, flow: Flow[None]) -> None:
        self._flow = flow
        self._resume: Callable[[], Effect] = partial(flow.send, None)
        self._awaited: tuple[PendingRequest, ...] | None = None
        self.until_ms = float("inf")

    @property
    def awaited(self) -> tuple[PendingRequest, ...]:
        return self._awaited or ()

    async def advance(self) -> bool:
        """Go on with the flow; True at its end. Raises what it raises."""
        while True:
            if self._awaited is not None:
                now_ms = await Now()
                done = [pending for pending in self._awaited if pending.is_done]
                if not done and now_ms < self.until_ms:
                    return False
                self._go_on(partial(self._flow.send, done))
            try:
                effect = self._resume()
            except StopIteration:
                return True
            await self._perform(effect)

    def close(self) -> None:
        self._flow.close()

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Wait():
                await self._wait(effect.awaited, effect.timeout_ms)
            case Sleep():
                pause_ms = await Draw(effect.low_ms, effect.high_ms)
                await self._wait((), pause_ms)
            case _:
                try:
                    value: object = await effect
                except Exception as error:  # noqa: BLE001 - the flow decides what it means
                    self._go_on(partial(self._flow.throw, error))
                else:
                    self._go_on(partial(self._flow.send, value))

    async def _wait(self, awaited: tuple[PendingRequest, ...], timeout_ms: float | None) -> None:
        now_ms = await Now()
        self._awaited = awaited
        self.until_ms = float("inf") if timeout_ms is None else now_ms + timeout_ms

    def _go_on(self, resume: Callable[[], Effect]) -> None:
        self._resume = resume
        self._awaited = None
        self.until_ms = float("inf")
