"""TLS contexts of listeners, and the security of links to other brokers: TLS and this broker's log-in, before a link is used.

It is imported only where there is something to secure.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

from typing_extensions import Buffer

from oncelog.broker import ClientAuth, ListenerSecurity
from oncelog.client.errors import AuthenticationFailed, ClientError
from oncelog.client.net.connection import BrokerConnection
from oncelog.client.net.flows import PendingRequest
from oncelog.client.requests import ApiRequest
from oncelog.client.transports.files import inlined
from oncelog.client.transports.sessions import begin_log_in
from oncelog.client.transports.tls import VERSIONS, handshake_failure, show, tls_context, trust
from oncelog.client.values import Address
from oncelog.security.der import NoDer, first_certificate
from oncelog.security.principals import ANONYMOUS, principal_of, user
from oncelog.security.stores import identity_pem
from oncelog.security.values import Security, TokenLogin
from oncelog.wire import WireError

logger = logging.getLogger("oncelog.links")

CLIENT_ID = "oncelog-broker"
LOG_IN_S = 10.0
OF_TLS = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError)


class LinkSecurity:
    """The TLS and the log-in of every link. `context` is None where nothing is encrypted.

    A failure that a retry does not change is a warning, once for each broker and reason.
    """

    def __init__(self, security: Security) -> None:
        """Raises ValueError for a file or store that is no good."""
        self.security = security
        self.context = tls_context(security)
        self._said: set[str] = set()

    @property
    def principal(self) -> str | None:
        """The principal under which this broker logs in; None if it does not."""
        login = self.security.login
        if login is not None:
            assert not isinstance(login, TokenLogin), "brokers log in with a password"
            return user(login.username)
        tls = inlined(self.security).tls
        if tls is None or tls.certificate is None:
            return None
        try:
            found = principal_of(first_certificate(identity_pem(tls.certificate)[0]))
        except NoDer:
            # OpenSSL reads more kinds than are read here: super.users has to name who shows it.
            return None
        return None if found == ANONYMOUS else found

    def of_link(self, host: str, port: int) -> SecuredLink:
        return SecuredLink(self, Address(host, port))

    def reason(self, error: ClientError | WireError) -> str:
        text = str(error)
        if isinstance(error, AuthenticationFailed) and text not in self._said:
            self._said.add(text)
            logger.warning("%s", text)
        return text


class LinkRefusedError(Exception):
    """One side has not shown who it is. The text says which."""


class SecuredLink:
    """The log-in on one link: frames out, the frames that answer them in, until the other broker has accepted this one."""

    def __init__(self, of_all: LinkSecurity, address: Address) -> None:
        self._of_all = of_all
        self._address = address
        self._connection = BrokerConnection(address, CLIENT_ID)
        login = of_all.security.login
        self._steps = None if login is None else begin_log_in(address, login, LOG_IN_S)

    def tls_failure(self, error: Exception) -> str | None:
        """The reason for a failure of TLS on either side; with TLS 1.3 the other side's comes after the handshake."""
        if self._of_all.context is None or not isinstance(error, OF_TLS):
            return None
        return self._of_all.reason(handshake_failure(self._address, error, self._of_all.security))

    def begin(self) -> list[Buffer] | None:
        """The first bytes to send; None if there is no log-in."""
        return None if self._steps is None else self._connection.handshake_request()

    def received(self, frame: memoryview) -> list[Buffer] | None:
        """The next bytes to send; None when the log-in is over. Raises LinkRefusedError."""
        try:
            return self._received(frame)
        except (ClientError, WireError) as error:
            raise LinkRefusedError(self._of_all.reason(error)) from None

    def _received(self, frame: memoryview) -> list[Buffer] | None:
        assert self._steps is not None, "nothing is received where there is no log-in"
        if self._connection.handshake is None:
            is_known = self._connection.take_handshake(frame)
            return self._frame(next(self._steps)) if is_known else self._connection.handshake_request()
        answer: Any = self._connection.receive(frame).result()
        try:
            return self._frame(self._steps.send(answer))
        except StopIteration:
            return None

    def _frame(self, request: ApiRequest) -> list[Buffer]:
        return self._connection.send(PendingRequest(self._address, request))


MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def listener_context(security: ListenerSecurity) -> ssl.SSLContext | None:
    """None for a listener without TLS. Raises ValueError for a file or store that is no good."""
    if security.tls is None:
        return None
    tls = inlined(Security(security.tls)).tls
    assert tls is not None, "it stays what it is"
    assert tls.certificate is not None, "a listener without a certificate is refused"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.version_min]
    context.maximum_version = VERSIONS[tls.version_max]
    context.verify_mode = MODES[security.client_auth]
    if security.client_auth is not ClientAuth.NONE:
        if tls.trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            trust(context, tls.trusted)
    show(context, tls.certificate)
    return context
