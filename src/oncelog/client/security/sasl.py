"""Saying who we are after a connection is made: SaslHandshake, then SaslAuthenticate until both sides are content.

A log-in is a generator, like a flow, of the requests of one connection: nothing else may be sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from oncelog.client import requests
from oncelog.client.errors import AuthenticationFailed
from oncelog.client.requests import ApiRequest
from oncelog.client.security.tokens import Token
from oncelog.client.values import Address
from oncelog.security.plain import plain_message
from oncelog.security.scram import ScramRefused, scram
from oncelog.security.values import Login, PlainLogin, ScramLogin, TokenLogin
from oncelog.wire import ErrorCode

LogIn: TypeAlias = Generator[ApiRequest, Any, float]
"""Requests out, the messages that answer them in; at the end the session's lifetime in ms, 0 for one without an end."""


def log_in(address: Address, login: Login, proof: Token | str) -> LogIn:
    """Authenticate a connection, new or not. `proof` is a token, or for SCRAM a nonce. Raises AuthenticationFailed."""
    mechanism, who = _mechanism(login), _who(login)
    handshake = yield ApiRequest(requests.SASL_HANDSHAKE, {"mechanism": mechanism})
    if handshake.error_code is ErrorCode.unsupported_sasl_mechanism:
        offered = ", ".join(handshake.mechanisms)
        raise AuthenticationFailed(f"{address} does not take {mechanism}: it takes {offered}")
    if handshake.error_code is ErrorCode.illegal_sasl_state:
        raise AuthenticationFailed(f"{address} takes no SASL: security.protocol is to be SSL or PLAINTEXT there")
    if handshake.error_code is not ErrorCode.none:
        raise AuthenticationFailed(f"{address} refused SaslHandshake with {handshake.error_code.name.upper()}")
    exchange = _exchange(login, proof)
    message = next(exchange)
    while True:
        answer = yield ApiRequest(requests.SASL_AUTHENTICATE, {"auth_bytes": message})
        if answer.error_code is not ErrorCode.none:
            reason = answer.error_message or answer.error_code.name.upper()
            raise AuthenticationFailed(f"{address} does not accept {who} by {mechanism}: {reason}")
        try:
            message = exchange.send(answer.auth_bytes)
        except StopIteration:
            lifetime = getattr(answer, "session_lifetime", None)
            return 0.0 if lifetime is None else lifetime.total_seconds() * 1000
        except ScramRefused as refused:
            raise AuthenticationFailed(f"{address} did not authenticate itself to {who}: {refused}") from None


def _exchange(login: Login, proof: Token | str) -> Generator[bytes, bytes, None]:
    match login:
        case PlainLogin():
            return _plain(login)
        case ScramLogin():
            assert isinstance(proof, str), "SCRAM begins with a nonce"
            return scram(login, proof)
        case TokenLogin():
            assert isinstance(proof, Token), "OAUTHBEARER begins with a token"
            return _bearer(login, proof)


def _plain(login: PlainLogin) -> Generator[bytes, bytes, None]:
    yield plain_message(login)


def _bearer(login: TokenLogin, token: Token) -> Generator[bytes, bytes, None]:
    """RFC 7628 §3.1. A server that refuses answers with its reason, and fails the exchange after one more byte."""
    fields = [("auth", f"Bearer {token.value}"), *login.extensions]
    refused = yield b"n,,\x01" + b"".join(f"{name}={value}\x01".encode() for name, value in fields) + b"\x01"
    if refused:
        yield b"\x01"


def _mechanism(login: Login) -> str:
    match login:
        case PlainLogin():
            return "PLAIN"
        case ScramLogin():
            return str(login.mechanism)
        case TokenLogin():
            return "OAUTHBEARER"


def _who(login: Login) -> str:
    return f"client {login.client_id!r}" if isinstance(login, TokenLogin) else f"user {login.username!r}"
