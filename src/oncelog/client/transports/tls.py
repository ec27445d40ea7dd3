"""TLS for both transports: a context from `Security`, and a sentence for whatever a handshake ends in."""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from oncelog.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from oncelog.client.transports.files import inlined
from oncelog.client.values import Address
from oncelog.security.der import end_of_certificate
from oncelog.security.stores import identity_pem, trusted_pem
from oncelog.security.values import Certificate, Security, Store, Tls, TlsVersion, Verification

VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}

# The numbers of OpenSSL's x509_vfy.h.
NOT_YET_VALID, EXPIRED = 9, 10
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
OTHER_HOST = (62, 64)

HUNG_UP = (
    EOFError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
)
KEY_FAILURES = {
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "CA_MD_TOO_WEAK": "a certificate is signed with a digest that OpenSSL takes for too weak (MD5, SHA-1)",
    "EE_KEY_TOO_SMALL": "the key of the certificate is one that OpenSSL takes for too small",
    "CA_KEY_TOO_SMALL": "the key of an authority in the chain is one that OpenSSL takes for too small",
}
"""Sentences by OpenSSL's reasons. Its security level decides what is strong enough."""
PASSING = ("INTERNAL_ERROR", "USER_CANCELLED", "CLOSE_NOTIFY")
"""Alerts that say nothing of certificates: a broker that stops sends them, too."""


def tls_context(security: Security) -> ssl.SSLContext | None:
    """The context of a client's connections, if they have TLS. Raises ValueError for a file or store that is no good."""
    return None if security.tls is None else _context(inlined(Security(security.tls)).tls)


def authorities_context(trusted: Store | None) -> ssl.SSLContext:
    """A context for a token endpoint, which shows itself to be the host it is asked at. Raises ValueError."""
    context = tls_context(Security(Tls(trusted)))
    assert context is not None, "TLS was asked for"
    return context


@lru_cache(maxsize=16)
def _context(tls: Tls) -> ssl.SSLContext:
    """Making one takes milliseconds, and each of Spark's tasks has clients of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = VERSIONS[tls.version_min]
    context.maximum_version = VERSIONS[tls.version_max]
    context.check_hostname = tls.verification is Verification.HOST
    context.verify_mode = ssl.CERT_NONE if tls.verification is Verification.NOTHING else ssl.CERT_REQUIRED
    if tls.trusted is None:
        context.load_default_certs()
    else:
        trust(context, tls.trusted)
    if tls.certificate is not None:
        show(context, tls.certificate)
    return context


def trust(context: ssl.SSLContext, store: Store) -> None:
    """Trust the certificates in a store whose file was read. Raises ValueError."""
    try:
        context.load_verify_locations(cadata=trusted_pem(store).decode("ascii", "replace"))
    except ssl.SSLError:
        raise ValueError(f"{store.option}: there is no certificate in PEM") from None


def show(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Show a certificate whose files were read. Raises ValueError."""
    pem, password = identity_pem(certificate)
    option = certificate.chain.option if certificate.key is None else certificate.key.option

    def ask() -> str:
        # OpenSSL asks on the terminal otherwise.
        if password is None:
            raise ValueError(f"{option}: the key is encrypted: ssl.key.password is needed")
        return password

    with _kept_in_memory(pem) as path:
        try:
            context.load_cert_chain(path, password=ask)
        except ssl.SSLError as error:
            raise ValueError(f"{option}: {_key_failure(error, password)}") from None


def _key_failure(error: ssl.SSLError, password: str | None) -> str:
    known = KEY_FAILURES.get(error.reason or "")
    if known is not None:
        return known
    if password is not None and error.reason in {None, "BAD_DECRYPT", "BAD_PASSWORD_READ"}:
        return "ssl.key.password is wrong, or the key is damaged"
    return "there is no certificate with its key in PEM"


@contextmanager
def _kept_in_memory(pem: bytes) -> Iterator[str]:
    """A path for OpenSSL, which reads keys from files alone. Where the system can, the file is on no disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("oncelog", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        yield file.name


def handshake_failure(address: Address, error: OSError | EOFError, security: Security) -> ClientError:
    """The error of a failed TLS handshake. It is one to retry where the broker may have stopped."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(_distrust(address, error))
    if isinstance(error, HUNG_UP):
        return ConnectionLost(f"{address} ended the TLS handshake; is TLS what it speaks there?", sent=False)
    if not isinstance(error, ssl.SSLError):
        return ConnectionLost(f"{address}: {error}", sent=False)
    reason = error.reason or ""
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}:
        return AuthenticationFailed(f"{address} speaks no TLS: security.protocol is to be PLAINTEXT or SASL_PLAINTEXT")
    if "ALERT" not in reason or reason.endswith(PASSING):
        return ConnectionLost(f"{address}: the TLS handshake failed: {_words(error)}", sent=False)
    own = None if security.tls is None else security.tls.certificate
    if "CERTIFICATE" in reason and own is None:
        named = "ssl.keystore.location or ssl.certificate.location"
        return AuthenticationFailed(f"{address} wants a certificate of this client: name it with {named}")
    if "CERTIFICATE" in reason or reason.endswith("UNKNOWN_CA"):
        why = _expiry(security) or f": {_words(error)}"
        return AuthenticationFailed(f"{address} does not accept this client's certificate{why}")
    return AuthenticationFailed(f"{address} ended the TLS handshake: {_words(error)}")


def _expiry(security: Security) -> str:
    """A clause for a client certificate that has expired. Brokers do not say it."""
    try:
        tls = inlined(security).tls
        if tls is None or tls.certificate is None:
            return ""
        ends = end_of_certificate(identity_pem(tls.certificate)[0])
    except ValueError:
        return ""
    return f", which expired on {ends:%Y-%m-%d}" if ends.timestamp() < time.time() else ""


def _distrust(address: Address, error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    if code == EXPIRED:
        return f"the certificate of {address}, or of its authority, has expired"
    if code == NOT_YET_VALID:
        return f"the certificate of {address}, or of its authority, is not valid yet"
    if code in UNKNOWN_AUTHORITY:
        named = "ssl.truststore.location or ssl.ca.location"
        return f"the certificate of {address} is by an authority that is not trusted here: name its certificate with {named}"
    if code in OTHER_HOST:
        accepting = "ssl.endpoint.identification.algorithm= (nothing) accepts any"
        return f"the certificate of {address} is for another host; {accepting}"
    return f"the certificate of {address} is not accepted: {error.verify_message}"


def _words(error: ssl.SSLError) -> str:
    """OpenSSL's reason without its place in OpenSSL."""
    reason = (error.reason or "").lower().replace("_", " ")
    return reason.rpartition("alert ")[2] or str(error)
