"""How links to other brokers are secured: TLS, and then this broker's log-in, before anybody else uses the link.

It is imported only where there is something to secure.
"""

from __future__ import annotations

import ssl
from typing import Any

from typing_extensions import Buffer

from oncelog.client.errors import ClientError
from oncelog.client.net.connection import BrokerConnection
from oncelog.client.net.conversation import Ticket
from oncelog.client.requests import ApiRequest
from oncelog.client.transports.sessions import begin_log_in
from oncelog.client.transports.tls import handshake_failure, tls_context
from oncelog.client.values import Address
from oncelog.security.values import Login, Security
from oncelog.wire import WireError

CLIENT_ID = "oncelog-broker"
LOG_IN_S = 10.0


class LinkSecurity:
    """What is done on every link. `context` is None where nothing is encrypted."""

    def __init__(self, security: Security) -> None:
        """Raises ValueError for a file or store that is no good."""
        self._security = security
        self.context = tls_context(security)

    def tls_failure(self, host: str, port: int, error: Exception) -> str | None:
        """What TLS has against the other side, or the other side against this one: with TLS 1.3 that comes after the handshake."""
        if self.context is None or not isinstance(error, OSError) or isinstance(error, TimeoutError):
            return None
        is_of_tls = isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError)
        return str(handshake_failure(Address(host, port), error, self._security)) if is_of_tls else None

    def new_log_in(self, host: str, port: int) -> LinkLogIn | None:
        login = self._security.login
        return None if login is None else LinkLogIn(Address(host, port), login)


class LinkLogIn:
    """Frames out, the frames that answer them in, until the other broker knows who this one is."""

    refusals = (ClientError, WireError)

    def __init__(self, address: Address, login: Login) -> None:
        self._connection = BrokerConnection(address, CLIENT_ID)
        self._steps = begin_log_in(address, login, LOG_IN_S)

    def begin(self) -> list[Buffer]:
        return self._connection.handshake_request()

    def received(self, frame: memoryview) -> list[Buffer] | None:
        """What is to be sent next; None when it is over. Raises one of `refusals`, whose text says why."""
        if self._connection.handshake is None:
            is_known = self._connection.take_handshake(frame)
            return self._frame(next(self._steps)) if is_known else self._connection.handshake_request()
        answer: Any = self._connection.receive(frame).result()
        try:
            return self._frame(self._steps.send(answer))
        except StopIteration:
            return None

    def _frame(self, request: ApiRequest) -> list[Buffer]:
        return self._connection.send(Ticket(self._connection.address, request))
