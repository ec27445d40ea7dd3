"""OAUTHBEARER's tokens: the request for one (RFC 6749 §4.4), what comes back, and for how long it is good."""

from __future__ import annotations

import binascii
import json
from base64 import b64encode, urlsafe_b64decode
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

from oncelog.security.values import TokenLogin

LIFE_PART = 0.8
"""How much of its life a token is used for: the Java client's default."""
GRANT = "client_credentials"


class NoToken(Exception):
    """The answer to a request for a token holds none."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What is posted to the authorization server."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes


@dataclass(frozen=True, slots=True)
class Token:
    """What a broker accepts instead of a password, until `renew_at_ms` at the latest."""

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
