"""One broker's connection to another: requests out, answers in, in the order in which they were sent.

What a request that got no answer means depends on one thing, whether it was sent: a `ChannelError` says so. Nothing is sent
twice: the caller decides about a retry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from oncelog.broker.view import ClusterNode
from oncelog.coordination import Promise, start
from oncelog.coordination.deadline import pause_range_ms
from oncelog.environment import BrokerNetwork, Clock, Link, Random, Timer
from oncelog.wire import ErrorCode, WireError, decode_answer, encode_request, message_class, read_answer_header
from oncelog.wire.messages import API_VERSIONS_KEY
from oncelog.wire.offered_versions import (
    QUESTION_VERSION_MAX,
    OfferedVersions,
    read_offered_versions,
    versions_question,
)

CORRELATION_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Kafka's `socket.connection.setup.timeout.ms`, `reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""

    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: float = 50
    reconnect_backoff_max_ms: float = 1_000


class Failure(Enum):
    """Why there is no answer. Only after UNREACHABLE and UNSUPPORTED it is certain that the request was not carried out."""

    UNREACHABLE = "it was not sent"
    UNSUPPORTED = "the other broker has no version of it that is known here"
    UNKNOWN = "it was sent, and no answer came"
    ABANDONED = "the caller no longer waits for the answer"
    BAD_ANSWER = "what came is no answer to it"


@dataclass(frozen=True, slots=True)
class ChannelError:
    """There is no answer. `reason` is a sentence for the log."""

    failure: Failure
    reason: str

    @property
    def was_sent(self) -> bool:
        """Returns True if the request may have been carried out."""
        return self.failure in (Failure.UNKNOWN, Failure.ABANDONED, Failure.BAD_ANSWER)


class ChannelState(Enum):
    """The names are those of the connections of Kafka's network client."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    READY = "ready"
    CLOSED = "closed"


DISCONNECTED, CONNECTING, CHECKING_API_VERSIONS, READY, CLOSED = ChannelState
TRANSITIONS: dict[tuple[ChannelState, ChannelState], str] = {
    (DISCONNECTED, CONNECTING): "something is asked, and the pause after the last failure is over",
    (CONNECTING, READY): "the other broker accepts",
    (CONNECTING, DISCONNECTED): "it refuses, or does not answer in time",
    (READY, CHECKING_API_VERSIONS): "a version is to be chosen, for the first time on this connection",
    (CHECKING_API_VERSIONS, READY): "the other broker has said what it offers",
    (CHECKING_API_VERSIONS, DISCONNECTED): "the connection is lost, or given up",
    (READY, DISCONNECTED): "the connection is lost, or given up",
    (DISCONNECTED, CLOSED): "it is needed no more",
    (CONNECTING, CLOSED): "it is needed no more",
    (CHECKING_API_VERSIONS, CLOSED): "it is needed no more",
    (READY, CLOSED): "it is needed no more",
}


class ChannelRequest:
    """One request. `outcome` is resolved once, even if its caller is gone.

    `correlation_id` and `read`, which makes the outcome of the frame that answers it, are there when it is sent.
    `versions` are those that the caller can send. Without `is_negotiated` there is one, sent whatever the other broker offers.
    """

    __slots__ = ("api_key", "correlation_id", "is_negotiated", "make_body", "outcome", "read", "versions")

    def __init__(self, api_key: int, versions: range, make_body: Callable[[int], Any], *, is_negotiated: bool) -> None:
        assert is_negotiated or len(versions) == 1, (api_key, versions)
        self.api_key = api_key
        self.versions = versions
        self.make_body = make_body
        self.is_negotiated = is_negotiated
        self.correlation_id: int
        self.read: Callable[[memoryview], Any]
        self.outcome: Promise[Any] = Promise()

    def end(self, outcome: Any) -> None:
        if not self.outcome.is_resolved:
            self.outcome.resolve(outcome)


class Channel:
    """A connection is made when something is asked, and made again when something is asked after it was lost."""

    __slots__ = (
        "_client_id",
        "_clock",
        "_correlation_id",
        "_failures",
        "_host",
        "_in_flight",
        "_link",
        "_network",
        "_offered",
        "_pause",
        "_port",
        "_random",
        "_settings",
        "_state",
        "_waiting",
        "node_id",
    )

    def __init__(
        self,
        network: BrokerNetwork,
        clock: Clock,
        random: Random,
        node_id: int,
        host: str,
        port: int,
        client_id: str,
        settings: ChannelSettings | None = None,
    ) -> None:
        self.node_id = node_id
        self._network = network
        self._clock = clock
        self._random = random
        self._host = host
        self._port = port
        self._client_id = client_id
        self._settings = settings or ChannelSettings()
        self._state = DISCONNECTED
        self._link: Link | None = None
        self._pause: Timer | None = None
        self._failures = 0
        self._offered: OfferedVersions | None = None
        self._waiting: deque[ChannelRequest] = deque()
        self._in_flight: deque[ChannelRequest] = deque()
        self._correlation_id = 0

    @property
    def state(self) -> ChannelState:
        return self._state

    async def ask(self, api_key: int, version: int, body: Any, timeout_ms: float) -> Any:
        """Send a request in this version, whatever the other broker offers; the answer's body, or a ChannelError.

        `timeout_ms` is for all of it, the connection too. Requests are sent in the order in which they were asked.
        """
        asked = ChannelRequest(api_key, range(version, version + 1), lambda _: body, is_negotiated=False)
        return await self._outcome(asked, timeout_ms)

    async def ask_newest(
        self, api_key: int, lowest: int, highest: int, make_body: Callable[[int], Any], timeout_ms: float
    ) -> Any:
        """As `ask`, in the newest version from `lowest` to `highest` that the other broker offers. `make_body` is given it."""
        asked = ChannelRequest(api_key, range(lowest, highest + 1), make_body, is_negotiated=True)
        return await self._outcome(asked, timeout_ms)

    def close(self) -> None:
        """Closes the channel. Waiting requests end with a ChannelError."""
        if self._state is CLOSED:
            return
        self._move(CLOSED)
        self._let_go("the channel was closed", Failure.UNKNOWN)

    def abandon(self) -> None:
        """Drops the request under way, and with it the connection: the other broker sees only that end."""
        if self._in_flight:
            self._move(DISCONNECTED)
            self._let_go("the answer is not waited for", Failure.ABANDONED)

    # --- what a link calls

    def opened(self, link: Link) -> None:
        self._move(READY)
        self._failures = 0
        self._go_on()

    def received(self, frame: memoryview) -> None:
        if not self._in_flight:
            self._lose(f"{self} sent an answer to no request", Failure.BAD_ANSWER)
            return
        asked = self._in_flight[0]
        try:
            answer = asked.read(frame)
        except WireError as error:
            self._lose(f"{self} sent an answer that cannot be read: {error}", Failure.BAD_ANSWER)
            return
        self._in_flight.popleft()
        asked.end(answer)

    def closed(self, reason: str) -> None:
        self._lose(reason, Failure.UNKNOWN)

    # --- inside

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self._host}:{self._port}"

    async def _outcome(self, asked: ChannelRequest, timeout_ms: float) -> Any:
        if self._state is CLOSED:
            return ChannelError(Failure.UNREACHABLE, "the channel was closed")
        timer = self._clock.call_later(timeout_ms, partial(self._expire, asked, timeout_ms))
        self._waiting.append(asked)
        try:
            self._go_on()
            return await asked.outcome
        finally:
            timer.cancel()
            if asked in self._waiting:
                self._waiting.remove(asked)

    def _expire(self, asked: ChannelRequest, timeout_ms: float) -> None:
        """An answer that comes later would be taken for the next one's, or hold it up: the connection ends (as in Kafka)."""
        reason = f"{self} did not answer in {timeout_ms:g} ms"
        if asked in self._in_flight or self._state is CHECKING_API_VERSIONS:
            self._lose(reason, Failure.UNKNOWN)
        asked.end(ChannelError(Failure.UNREACHABLE, reason))

    def _go_on(self) -> None:
        """Send what waits, as far as the connection is ready for it, or see to it that there is one."""
        while self._waiting and self._state is READY:
            if self._waiting[0].is_negotiated and self._offered is None:
                start(self._check_api_versions())
            else:
                self._send_versioned(self._waiting.popleft())
        if self._waiting and self._state is DISCONNECTED and self._pause is None:
            self._connect()

    def _connect(self) -> None:
        self._pause = None
        self._move(CONNECTING)
        self._link = self._network.connect(self._host, self._port, self, timeout_ms=self._settings.connect_timeout_ms)

    async def _check_api_versions(self) -> None:
        """Ask what the other broker offers, and again in the first version if it is older than the question."""
        self._move(CHECKING_API_VERSIONS)
        version, offered = QUESTION_VERSION_MAX, await self._versions(QUESTION_VERSION_MAX)
        if offered is ErrorCode.unsupported_version:
            version, offered = 0, await self._versions(0)
        if isinstance(offered, ChannelError):
            return
        if isinstance(offered, ErrorCode):
            self._lose(f"{self} refused ApiVersions v{version} with {offered.name}", Failure.BAD_ANSWER)
            return
        self._offered = offered
        self._move(READY)
        self._go_on()

    async def _versions(self, version: int) -> OfferedVersions | ErrorCode | ChannelError:
        asked = ChannelRequest(API_VERSIONS_KEY, range(version, version + 1), versions_question, is_negotiated=False)
        kind = message_class(API_VERSIONS_KEY, version, "response")

        def read(frame: memoryview) -> OfferedVersions | ErrorCode:
            position = read_answer_header(kind, frame, asked.correlation_id, str(self))
            return read_offered_versions(version, frame, position)

        self._send(asked, version, read)
        answer: OfferedVersions | ErrorCode | ChannelError = await asked.outcome
        return answer

    def _send_versioned(self, asked: ChannelRequest) -> None:
        version: int | None = asked.versions[-1]
        if asked.is_negotiated:
            assert self._offered is not None, "what the other broker offers was asked first"
            version = self._offered.newest(asked.api_key, asked.versions[0], asked.versions[-1])
        if version is None:
            asked.end(ChannelError(Failure.UNSUPPORTED, self._no_version(asked)))
            return
        kind = message_class(asked.api_key, version, "response")

        def read(frame: memoryview) -> Any:
            position = read_answer_header(kind, frame, asked.correlation_id, str(self))
            return decode_answer(kind, frame, position)

        self._send(asked, version, read)

    def _send(self, asked: ChannelRequest, version: int, read: Callable[[memoryview], Any]) -> None:
        assert self._link is not None, "a channel that is ready has a link"
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_MAX
        asked.correlation_id = self._correlation_id
        asked.read = read
        body = asked.make_body(version)
        self._in_flight.append(asked)
        self._link.send(encode_request(asked.api_key, version, asked.correlation_id, self._client_id, body))

    def _lose(self, reason: str, failure: Failure) -> None:
        """There is no connection any more: the next one is made after a pause, if anything is asked then."""
        self._move(DISCONNECTED)
        self._failures += 1
        low_ms, high_ms = pause_range_ms(
            self._failures, self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms
        )
        self._pause = self._clock.call_later(low_ms + (high_ms - low_ms) * self._random.fraction(), self._pause_is_over)
        self._let_go(reason, failure)

    def _pause_is_over(self) -> None:
        self._pause = None
        self._go_on()

    def _let_go(self, reason: str, failure: Failure) -> None:
        """End the link and all that waits. `failure` is what befell the oldest request that was sent."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if self._state is CLOSED and self._pause is not None:
            self._pause.cancel()
        self._offered = None
        in_flight, self._in_flight = self._in_flight, deque()
        waiting, self._waiting = self._waiting, deque()
        for asked in in_flight:
            asked.end(ChannelError(failure, reason))
            failure = Failure.UNKNOWN
        for asked in waiting:
            asked.end(ChannelError(Failure.UNREACHABLE, reason))

    def _no_version(self, asked: ChannelRequest) -> str:
        assert self._offered is not None, "what the other broker offers was asked first"
        lowest, highest = self._offered.versions.get(asked.api_key, (0, -1))
        offers = "does not offer it" if highest < lowest else f"offers {lowest} to {highest}"
        return (
            f"API {asked.api_key} is needed in version {asked.versions[0]} to {asked.versions[-1]}, and {self} {offers}"
        )

    def _move(self, state: ChannelState) -> None:
        assert (self._state, state) in TRANSITIONS, (str(self), self._state, state)
        self._state = state


class Channels:
    """Channels to brokers, opened on demand. A broker with a new address gets a new one."""

    def __init__(self, network: BrokerNetwork, clock: Clock, random: Random, client_id: str) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._client_id = client_id
        self._channels: dict[int, tuple[ClusterNode, Channel]] = {}

    def to(self, node: ClusterNode) -> Channel:
        known = self._channels.get(node.node_id)
        if known is not None:
            if (known[0].host, known[0].port) == (node.host, node.port):
                return known[1]
            known[1].close()
        channel = Channel(self._network, self._clock, self._random, node.node_id, node.host, node.port, self._client_id)
        self._channels[node.node_id] = node, channel
        return channel

    def keep(self, alive: Container[int]) -> None:
        """Closes the channels to brokers that are not alive, so that their callers try another broker at once."""
        for node_id in [one for one in self._channels if one not in alive]:
            _, channel = self._channels.pop(node_id)
            channel.close()

    def close(self) -> None:
        for _, channel in self._channels.values():
            channel.close()
        self._channels.clear()
