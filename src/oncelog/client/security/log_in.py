"""The log-in to a broker with SASL, and the tokens of OAUTHBEARER (RFC 6749 §4.4).

A log-in sends SaslHandshake, then SaslAuthenticate until both sides are content. It is a generator of the requests of one
connection: nothing else may be sent meanwhile.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote_plus, urlencode

from oncelog.client import requests
from oncelog.client.errors import AuthenticationFailed
from oncelog.client.requests import ApiRequest
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


LIFE_PART = 0.8
"""The share of its life for which a token is used: the Java client's default."""
GRANT = "client_credentials"


class NoToken(Exception):
    """The answer to a request for a token holds none."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The POST to the authorization server."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. It is good until `renew_at_ms` at the latest."""

    value: str = field(repr=False)
    renew_at_ms: float = 0.0


def token_request(login: TokenLogin) -> TokenRequest:
    """The client's id and secret go into the header, as RFC 6749 §2.3.1 prefers."""
    names = login.client_id, login.client_secret.value
    credentials = ":".join(map(quote_plus, names) if login.credentials_are_encoded else names)
    fields = {"grant_type": GRANT}
    if login.scope is not None:
        fields["scope"] = login.scope
    headers = (
        ("Authorization", "Basic " + b64encode(credentials.encode()).decode()),
        ("Accept", "application/json"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    )
    return TokenRequest(login.url, headers, urlencode(fields).encode())


def read_token(body: bytes, now_ms: float) -> Token:
    """The token in an answer; where it does not say how long it is good, the token itself may. Raises NoToken."""
    try:
        answer = json.loads(body)
    except ValueError:
        raise NoToken("its answer is no JSON") from None
    value = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value:
        raise NoToken("its answer has no access_token")
    life_s = answer.get("expires_in")
    if isinstance(life_s, int | float) and not isinstance(life_s, bool):
        return Token(value, now_ms + LIFE_PART * life_s * 1000)
    expires_s = _claim(value, "exp")
    return Token(value, now_ms if expires_s is None else now_ms + LIFE_PART * (expires_s * 1000 - now_ms))


def refusal(body: bytes) -> str:
    """The error that an authorization server names (RFC 6749 §5.2), which is a word of its own and repeats nothing."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, str) and error.replace("_", "").isalnum() and len(error) < 80 else ""


def _claim(token: str, name: str) -> float | None:
    """One number that a JSON web token says of itself, if it is one."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    value = claims.get(name) if isinstance(claims, dict) else None
    return float(value) if isinstance(value, int | float) else None
