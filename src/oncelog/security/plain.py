"""SASL's PLAIN (RFC 4616): one message with a user's name and password, from which both sides' halves follow."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from oncelog.security.values import PlainLogin, Secret


class PlainRefused(Exception):
    """The text is Kafka's, and the client is told it."""


def plain_message(login: PlainLogin) -> bytes:
    """The client's message."""
    return b"\0".join((b"", login.username.encode(), login.password.value.encode()))


def verify_plain(message: bytes, users: Mapping[str, Secret]) -> str:
    """The user's name, if the password is right. Raises PlainRefused."""
    try:
        identity, username, password = message.decode().split("\0")
    except (UnicodeDecodeError, ValueError):
        raise PlainRefused("Invalid SASL/PLAIN response: expected 3 tokens") from None
    if not username:
        raise PlainRefused("Authentication failed: username not specified")
    if not password:
        raise PlainRefused("Authentication failed: password not specified")
    known = users.get(username)
    # An unknown user takes as long as a known one.
    is_right = hmac.compare_digest(password.encode(), b"" if known is None else known.value.encode())
    if known is None or not is_right:
        raise PlainRefused("Authentication failed: Invalid username or password")
    if identity not in ("", username):
        raise PlainRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return username
