"""Reading what a user's security options name, on the machine where they are given.

Connections that are opened elsewhere, as in Spark's tasks, take the contents along and need no files there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oncelog.security.values import Security, Store, Tls, TokenLogin


def inlined(security: Security) -> Security:
    """The same, with the content of each file in place of its name. Raises ValueError with a sentence."""
    login = security.login
    if isinstance(login, TokenLogin):
        login = replace(login, trusted=_read(login.trusted))
    return Security(None if security.tls is None else _tls(security.tls), login)


def _tls(tls: Tls) -> Tls:
    certificate = tls.certificate
    if certificate is not None:
        chain = _read(certificate.chain)
        assert chain is not None, "a store stays one"
        certificate = replace(certificate, chain=chain, key=_read(certificate.key))
    return replace(tls, trusted=_read(tls.trusted), certificate=certificate)


def _read(store: Store | None) -> Store | None:
    if store is None or store.path is None:
        return store
    try:
        content = Path(store.path).read_bytes()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ValueError(f"{store.option}: {store.path} cannot be read: {reason}") from None
    return replace(store, path=None, content=content)
