"""Authentication at a listener with SASL: SaslHandshake, then SaslAuthenticate (KIP-43, KIP-152).

Behind SaslHandshake v0 the mechanism's messages come as frames without a header. Only ApiVersions is served before it. The
rules and the error messages are those of Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, Protocol

from typing_extensions import Buffer

from oncelog.broker.request import Peer
from oncelog.coordination import Promise, sleep, start
from oncelog.environment import Clock, Random
from oncelog.security.plain import PlainRefused, verify_plain
from oncelog.security.scram import ScramCredential, ScramRefused, ScramServer
from oncelog.security.values import Scram, Secret
from oncelog.wire import (
    FRAME_LENGTH,
    ErrorCode,
    RequestHeader,
    WireError,
    api_name,
    construct,
    decode_request,
    encode_answer,
    message_class,
    read_request_header,
    skip_tagged_fields,
)
from oncelog.wire.messages import API_VERSIONS_KEY

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
PLAIN = "PLAIN"
NO_END = timedelta(0)
"""A session lasts as long as its connection."""

Answer = list[Buffer] | None
Receive = Callable[[Any, memoryview], Answer | Promise[Answer]]


class SaslState(Enum):
    HANDSHAKE = "the client is to choose a mechanism"
    AUTHENTICATE = "it is to show who it is"
    COMPLETE = "it has shown it"
    FAILED = "it has not, and the connection ends"


HANDSHAKE, AUTHENTICATE, COMPLETE, FAILED = SaslState
TRANSITIONS: dict[tuple[SaslState, SaslState], str] = {
    (HANDSHAKE, AUTHENTICATE): "it has chosen a mechanism that there is",
    (HANDSHAKE, FAILED): "it has chosen another one, or sends another request",
    (AUTHENTICATE, COMPLETE): "the last message of the mechanism is right",
    (AUTHENTICATE, FAILED): "a message of the mechanism is wrong, or it sends another request",
}


class ScramUsers(Protocol):
    def credential(self, mechanism: Scram, username: str) -> Awaitable[ScramCredential | None]:
        """The credential of a user; None if the user is unknown."""
        ...


class AuthenticationRefusedError(Exception):
    """The sentence is what the client is told."""


class SaslAuthenticator:
    """Authenticates one connection. It calls `complete` once, with the user's name, and serves nothing after that.

    `mechanisms` are those of the listener, `plain_users` the users of PLAIN with their passwords. A refusal is answered after
    `delay_ms`, as in Kafka, to slow down a client that guesses passwords.
    """

    __slots__ = (
        "_clock",
        "_complete",
        "_delay_ms",
        "_exchange",
        "_has_headers",
        "_mechanism",
        "_mechanisms",
        "_plain_users",
        "_random",
        "_scram_users",
        "_serve",
        "_state",
        "_username",
    )

    def __init__(
        self,
        clock: Clock,
        random: Random,
        mechanisms: Sequence[str],
        plain_users: Mapping[str, Secret],
        scram_users: ScramUsers | None,
        delay_ms: float,
        serve: Receive,
        complete: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._random = random
        self._mechanisms = mechanisms
        self._plain_users = plain_users
        self._scram_users = scram_users
        self._delay_ms = delay_ms
        self._serve = serve
        self._complete = complete
        self._state = HANDSHAKE
        self._mechanism = self._username = ""
        self._exchange: ScramServer | None = None
        self._has_headers = True

    @property
    def state(self) -> SaslState:
        return self._state

    def receive(self, connection: Peer, frame: memoryview) -> Answer | Promise[Answer]:
        """As the broker's own: take one request, without its length, and give its answer. Raises WireError."""
        if self._state is FAILED:
            # It is told why, and then hung up on.
            return Promise()
        if not self._has_headers:
            return start(self._authenticate_without_header(connection, bytes(frame)))
        header = read_request_header(frame)
        if header.api_key == API_VERSIONS_KEY and self._state is HANDSHAKE:
            return self._serve(connection, frame)
        if header.api_key == SASL_HANDSHAKE and header.version in (0, 1) and self._state is HANDSHAKE:
            return self._handshake(connection, header, _body(header, frame))
        if header.api_key == SASL_AUTHENTICATE and 0 <= header.version <= 2 and self._state is AUTHENTICATE:
            return start(self._authenticate(connection, header, bytes(_body(header, frame).auth_bytes)))
        self._move(FAILED)
        raise WireError(f"Unexpected Kafka request of type {api_name(header.api_key)} during SASL handshake.")

    def _handshake(self, connection: Peer, header: RequestHeader, body: Any) -> Answer:
        mechanism = body.mechanism
        if mechanism in self._mechanisms:
            self._mechanism = mechanism
            self._has_headers = header.version > 0
            self._move(AUTHENTICATE)
            return _answer(header, error_code=ErrorCode.none, mechanisms=tuple(self._mechanisms))
        self._move(FAILED)
        self._hang_up(connection, f"it wants the SASL mechanism {mechanism[:40]!r}, which is not enabled")
        return _answer(header, error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=tuple(self._mechanisms))

    async def _authenticate(self, connection: Peer, header: RequestHeader, message: bytes) -> Answer:
        try:
            answer = await self._step(connection, message)
        except AuthenticationRefusedError as refused:
            return _answer(
                header,
                error_code=ErrorCode.sasl_authentication_failed,
                error_message=str(refused),
                auth_bytes=b"",
                session_lifetime=NO_END,
            )
        return _answer(
            header, error_code=ErrorCode.none, error_message=None, auth_bytes=answer, session_lifetime=NO_END
        )

    async def _authenticate_without_header(self, connection: Peer, message: bytes) -> Answer:
        try:
            answer = await self._step(connection, message)
        except AuthenticationRefusedError:
            return None
        return [FRAME_LENGTH.pack(len(answer)) + answer]

    async def _step(self, connection: Peer, message: bytes) -> bytes:
        """Return the mechanism's answer. Raises AuthenticationRefusedError, after the delay; the connection ends then."""
        try:
            answer, is_last = await self._next(message)
        except AuthenticationRefusedError as refused:
            self._move(FAILED)
            await sleep(self._clock, self._delay_ms)
            self._hang_up(connection, f"it is not authenticated by {self._mechanism}: {refused.__cause__ or refused}")
            raise
        if is_last:
            self._move(COMPLETE)
            self._complete(self._username)
        return answer

    async def _next(self, message: bytes) -> tuple[bytes, bool]:
        """Return the mechanism's answer, and True if it is the last one. Raises AuthenticationRefusedError."""
        if self._mechanism == PLAIN:
            try:
                self._username = verify_plain(message, self._plain_users)
            except PlainRefused as refused:
                raise AuthenticationRefusedError(str(refused)) from None
            return b"", True
        try:
            return await self._next_of_scram(message)
        except ScramRefused as refused:
            raise AuthenticationRefusedError(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                + self._mechanism
            ) from refused

    async def _next_of_scram(self, message: bytes) -> tuple[bytes, bool]:
        if self._exchange is not None:
            return self._exchange.verify(message), True
        assert self._scram_users is not None, "a listener has SCRAM only where there are users of it"
        mechanism = Scram(self._mechanism)
        exchange = ScramServer(mechanism, self._random.uuid().hex)
        self._username = exchange.username(message)
        credential = await self._scram_users.credential(mechanism, self._username)
        if credential is None:
            raise ScramRefused(f"the user {self._username[:40]!r} is not known")
        self._exchange = exchange
        return exchange.challenge(credential), False

    def _hang_up(self, connection: Peer, reason: str) -> None:
        """Once what is answered now is on its way."""
        self._clock.call_later(0, partial(connection.close, reason))

    def _move(self, state: SaslState) -> None:
        assert (self._state, state) in TRANSITIONS, (self._state, state)
        self._state = state


def _body(header: RequestHeader, frame: memoryview) -> Any:
    kind = message_class(header.api_key, header.version, "request")
    position = skip_tagged_fields(frame, header.end) if kind.__flexible__ else header.end
    return decode_request(kind, frame, position)


def _answer(header: RequestHeader, **values: Any) -> Answer:
    body = construct(message_class(header.api_key, header.version, "response"), **values)
    return encode_answer(header.api_key, header.version, header.correlation_id, body)
