"""The steps of both transports to secure a connection, without the waiting.

TLS and HTTP are imported where they are used: a client without them starts as fast as before.
"""

from __future__ import annotations

import random
import secrets
import time
from typing import TYPE_CHECKING

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from oncelog.client.net.connection import BrokerConnection, SpeaksTlsError
from oncelog.client.security.log_in import LogIn, log_in
from oncelog.client.values import Address
from oncelog.security.values import Login, Security, TokenLogin
from oncelog.wire import WireError

if TYPE_CHECKING:
    from ssl import SSLContext

NONCE_BYTES = 24
UNREACHABLE = (OSError, UnicodeError, OverflowError)
"""The errors of connecting: the last two for a host or port that a broker named and that none can have."""
RENEWAL_LOW, RENEWAL_HIGH = 0.85, 0.95
"""The share of a session's life after which it is renewed: as in the Java client (KIP-368)."""
RENEWAL_MS_MIN = 1_050
"""Kafka refuses to renew a session that is not a second old, and renews one that is over."""


def context_for(security: Security) -> SSLContext | None:
    """Raises ValueError for a file or store that is no good."""
    if security.tls is None:
        return None
    from oncelog.client.transports.tls import tls_context

    return tls_context(security)


def begin_log_in(address: Address, login: Login, timeout_s: float) -> LogIn:
    """A log-in with what it needs from outside. May block for a token. Raises AuthenticationFailed, ConnectionLost."""
    if not isinstance(login, TokenLogin):
        return log_in(address, login, secrets.token_urlsafe(NONCE_BYTES))
    from oncelog.client.transports.tokens import token_for

    return log_in(address, login, token_for(login, timeout_s))


def forget_token(login: Login) -> None:
    """A broker did not accept it, so another is asked for next time."""
    if isinstance(login, TokenLogin):
        from oncelog.client.transports.tokens import forget

        forget(login)


def renewal_ms(lifetime_ms: float) -> float:
    """The time to authenticate again, on the monotonic clock. A session without an end has a lifetime of 0."""
    if lifetime_ms <= 0:
        return float("inf")
    return time.monotonic() * 1000 + max(lifetime_ms * random.uniform(RENEWAL_LOW, RENEWAL_HIGH), RENEWAL_MS_MIN)


def opening_failure(connection: BrokerConnection, security: Security, error: Exception) -> ClientError:
    """The error of a connection that failed before its first request."""
    address = connection.address
    if isinstance(error, SpeaksTlsError):
        return AuthenticationFailed(f"{address} speaks TLS: security.protocol is to be SSL or SASL_SSL")
    if connection.handshake is not None:
        return ConnectionLost(f"{address}: the log-in ended early: {error or 'the connection ended'}", sent=False)
    if security.tls is not None and isinstance(error, OSError | EOFError) and not isinstance(error, TimeoutError):
        from oncelog.client.transports.tls import handshake_failure

        return handshake_failure(address, error, security)
    if isinstance(error, TimeoutError):
        return ConnectionLost(f"{address}: no answer to ApiVersions in time", sent=False)
    assert isinstance(error, OSError | EOFError | WireError), error
    reason = str(error) or "the connection ended"
    return ConnectionLost(f"{address}: no answer to ApiVersions: {reason}", sent=False)


def closing_reason(connection: BrokerConnection, security: Security) -> str:
    """The reason for the end of a connection. A broker that wants SASL ends one that begins with anything else."""
    reason = "the broker closed the connection"
    if security.login is None and not connection.was_answered:
        reason += " before it answered: if it wants SASL, set security.protocol and sasl.mechanism"
    return reason
