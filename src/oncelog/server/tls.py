"""TLS contexts of a broker: for who connects to its listeners, and for itself when it connects to other brokers."""

from __future__ import annotations

import ssl

from oncelog.broker import ClientAuth, ListenerSecurity
from oncelog.client.transports.files import inlined
from oncelog.client.transports.tls import VERSIONS, show, trust
from oncelog.security.values import Security

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
