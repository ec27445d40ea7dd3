"""Tokens for OAUTHBEARER, asked for over HTTP and kept while they are good.

They are kept for the whole process: a broker asks for one with each connection, and Spark's tasks make many.
"""

from __future__ import annotations

import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from http.client import HTTPException

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from oncelog.client.security.log_in import NoToken, Token, read_token, refusal, token_request
from oncelog.client.transports.tls import authorities_context
from oncelog.security.values import TokenLogin

SERVER_TROUBLE = 500
TOO_MANY_REQUESTS = 429
ANSWER_BYTES_MAX = 1024 * 1024

_tokens: dict[TokenLogin, Token] = {}
_locks: defaultdict[TokenLogin, threading.Lock] = defaultdict(threading.Lock)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The header with the secret is for the address that the user named."""

    def redirect_request(self, *_: object) -> None:
        return None


def token_for(login: TokenLogin, timeout_s: float) -> Token:
    """A token that is still good. Blocks. Raises AuthenticationFailed, or ConnectionLost where trying again may help."""
    with _locks[login]:
        known = _tokens.get(login)
        if known is not None and time.time() * 1000 < known.renew_at_ms:
            return known
        _tokens[login] = token = _ask(login, timeout_s)
        return token


def forget(login: TokenLogin) -> None:
    """Ask for another token next time."""
    _tokens.pop(login, None)


def _ask(login: TokenLogin, timeout_s: float) -> Token:
    asked = token_request(login)
    https = urllib.request.HTTPSHandler(context=_context(login))
    request = urllib.request.Request(asked.url, asked.body, dict(asked.headers), method="POST")
    asked_at_ms = time.time() * 1000
    try:
        with urllib.request.build_opener(_NoRedirects(), https).open(request, timeout=timeout_s) as answer:
            return read_token(answer.read(ANSWER_BYTES_MAX), asked_at_ms)
    except NoToken as error:
        raise AuthenticationFailed(f"{login.url} gave no token to client {login.client_id!r}: {error}") from None
    except urllib.error.HTTPError as error:
        raise _refused(login, error) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = f"its certificate is not accepted: {reason.verify_message}"
            raise AuthenticationFailed(f"the token endpoint {login.url}: {why}; see https.ca.location") from None
        raise ConnectionLost(f"the token endpoint {login.url} cannot be reached: {reason}", sent=False) from None


def _context(login: TokenLogin) -> ssl.SSLContext:
    try:
        return authorities_context(login.trusted)
    except ValueError as error:
        raise AuthenticationFailed(str(error)) from None


def _refused(login: TokenLogin, error: urllib.error.HTTPError) -> ClientError:
    with error:
        said = refusal(error.read(ANSWER_BYTES_MAX))
    status = f"{error.code} {said or error.reason}"
    if error.code >= SERVER_TROUBLE or error.code == TOO_MANY_REQUESTS:
        return ConnectionLost(f"the token endpoint {login.url} answered {status}", sent=False)
    return AuthenticationFailed(f"{login.url} gave no token to client {login.client_id!r}: {status}")
