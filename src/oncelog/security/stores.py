"""Stores of certificates and keys, converted to PEM, which is what Python's TLS takes. Their bytes have been read already.

Java writes PKCS12 today, whatever the name of the file. JKS, its older format, holds trusted certificates in the clear, and
keys under a cipher of Sun's that is made of SHA-1.
"""

from __future__ import annotations

import hmac
import struct
from base64 import encodebytes
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

from oncelog.security.der import OCTETS, SEQUENCE, NoDer, element
from oncelog.security.values import Certificate, Secret, Store, StoreKind

MAGIC = b"\xfe\xed\xfe\xed"
DIGEST_BYTES = 20
KEY_ENTRY, TRUSTED_ENTRY = 1, 2
WHITENER = b"Mighty Aphrodite"
SUN_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 in DER."""


class NoStore(ValueError):
    """The bytes are no store, or the password is another."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key, still hidden, and its certificates in DER, the key's own first."""

    hidden_key: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JavaStore:
    """The entries of a JKS file."""

    trusted: tuple[bytes, ...]
    keys: tuple[KeyEntry, ...]


def read_java_store(data: bytes, password: str | None) -> JavaStore:
    """Read a JKS file; without a password nobody knows whether it was changed. Raises NoStore."""
    if password is not None:
        digest = sha1(_password_bytes(password) + WHITENER + data[:-DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-DIGEST_BYTES:]):
            raise NoStore("the password is wrong, or the file is damaged")
    try:
        return _entries(_Bytes(data[:-DIGEST_BYTES]))
    except struct.error:
        raise NoStore("the file ends too early") from None


def reveal_key(entry: KeyEntry, password: str) -> bytes:
    """The key as PKCS8 in DER. Raises NoStore."""
    try:
        _, whole, _ = element(entry.hidden_key, SEQUENCE)
        _, algorithm, rest = element(whole, SEQUENCE)
        _, hidden, _ = element(rest, OCTETS)
    except NoDer:
        raise NoStore("its key is damaged") from None
    if not algorithm.startswith(SUN_KEY_PROTECTOR) or len(hidden) < 2 * DIGEST_BYTES:
        raise NoStore("its key is protected in a way that is not known")
    salt, masked, check = hidden[:DIGEST_BYTES], hidden[DIGEST_BYTES:-DIGEST_BYTES], hidden[-DIGEST_BYTES:]
    secret = _password_bytes(password)
    key = bytes(one ^ other for one, other in zip(masked, _mask(secret, salt, len(masked)), strict=True))
    if not hmac.compare_digest(sha1(secret + key, usedforsecurity=False).digest(), check):
        raise NoStore("the password of its key is wrong")
    return key


class _Bytes:
    """Java's DataInput: big-endian numbers, texts and byte arrays with their lengths before them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self) -> int:
        (value,) = struct.unpack_from(">I", self._data, self._position)
        self._position += 4
        return int(value)

    def text(self) -> bytes:
        (size_bytes,) = struct.unpack_from(">H", self._data, self._position)
        self._position += 2
        return self.take(size_bytes)

    def block(self) -> bytes:
        return self.take(self.number())

    def take(self, size_bytes: int) -> bytes:
        taken = self._data[self._position : self._position + size_bytes]
        if len(taken) < size_bytes:
            raise NoStore("the file ends too early")
        self._position += size_bytes
        return taken


def _entries(data: _Bytes) -> JavaStore:
    if data.take(len(MAGIC)) != MAGIC:
        raise NoStore("the file is no JKS store")
    version = data.number()
    if version != 2:
        raise NoStore(f"the file is of version {version}")
    trusted: list[bytes] = []
    keys: list[KeyEntry] = []
    for _ in range(data.number()):
        tag = data.number()
        data.text()  # the alias
        data.take(8)  # when it was made
        if tag == TRUSTED_ENTRY:
            trusted.append(_certificate(data))
        elif tag == KEY_ENTRY:
            hidden = data.block()
            keys.append(KeyEntry(hidden, tuple(_certificate(data) for _ in range(data.number()))))
        else:
            raise NoStore(f"an entry is of kind {tag}")
    return JavaStore(tuple(trusted), tuple(keys))


def _certificate(data: _Bytes) -> bytes:
    data.text()  # "X.509"
    return data.block()


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _mask(secret: bytes, salt: bytes, size_bytes: int) -> bytes:
    return b"".join(_digests(secret, salt, size_bytes))[:size_bytes]


def _digests(secret: bytes, salt: bytes, size_bytes: int) -> Iterator[bytes]:
    digest = salt
    for _ in range(0, size_bytes, DIGEST_BYTES):
        digest = sha1(secret + digest, usedforsecurity=False).digest()
        yield digest


EXTRA = "oncelog[pkcs12]"


def trusted_pem(store: Store) -> bytes:
    """The certificates to trust. Raises ValueError with a sentence that names the option."""
    try:
        match _kind(store):
            case StoreKind.PEM:
                return _content(store)
            case StoreKind.JKS:
                found = read_java_store(_content(store), _value(store.password)).trusted
                pem = b"".join(map(_certificate_pem, found))
            case StoreKind.PKCS12:
                loaded = _pkcs12(store)
                pem = b"".join(
                    _public_pem(item.certificate) for item in (loaded.cert, *loaded.additional_certs) if item
                )
        if not pem:
            raise NoStore("it has no certificate to trust")
        return pem
    except NoStore as error:
        raise ValueError(f"{store.option}: {error}") from None


def identity_pem(certificate: Certificate) -> tuple[bytes, str | None]:
    """A chain with its key, and the password of the key, if it has one. Raises ValueError that names the option."""
    store = certificate.chain
    try:
        match _kind(store):
            case StoreKind.PEM:
                key = b"" if certificate.key is None else b"\n" + _content(certificate.key)
                return _content(store) + key, _value(certificate.key_password)
            case StoreKind.JKS:
                return _java_identity(certificate), None
            case StoreKind.PKCS12:
                return _pkcs12_identity(store), None
    except NoStore as error:
        raise ValueError(f"{store.option}: {error}") from None


def _java_identity(certificate: Certificate) -> bytes:
    store = certificate.chain
    password = _value(store.password)
    entries = read_java_store(_content(store), password).keys
    entry = _only_key(entries)
    key_password = _value(certificate.key_password) or password
    if key_password is None:
        raise NoStore("its key needs ssl.keystore.password or ssl.key.password")
    return b"".join(map(_certificate_pem, entry.chain)) + _armoured("PRIVATE KEY", reveal_key(entry, key_password))


def _only_key(entries: tuple[KeyEntry, ...]) -> KeyEntry:
    if len(entries) != 1:
        raise NoStore(f"it has {len(entries)} keys, and one is needed")
    return entries[0]


def _pkcs12_identity(store: Store) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    loaded = _pkcs12(store)
    if loaded.key is None or loaded.cert is None:
        raise NoStore("it has no key with a certificate")
    chain = b"".join(_public_pem(item.certificate) for item in (loaded.cert, *loaded.additional_certs))
    key: bytes = loaded.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return chain + key


def _pkcs12(store: Store) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise NoStore(f"PKCS12 is read by the package cryptography: pip install '{EXTRA}'") from None
    password = _value(store.password)
    try:
        return load_pkcs12(_content(store), None if password is None else password.encode())
    except ValueError:
        raise NoStore("the password is wrong, or the file is no PKCS12 store") from None


def _public_pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = certificate.public_bytes(Encoding.PEM)
    return pem


def _kind(store: Store) -> StoreKind:
    """The kind of a store, by its content. As in Java, a file that is named JKS may be PKCS12 and the other way round."""
    if store.kind is StoreKind.PEM:
        return StoreKind.PEM
    return StoreKind.JKS if _content(store).startswith(MAGIC) else StoreKind.PKCS12


def _content(store: Store) -> bytes:
    assert store.content is not None, "the file was not read yet"
    return store.content


def _value(secret: Secret | None) -> str | None:
    return None if secret is None else secret.value


def _certificate_pem(certificate: bytes) -> bytes:
    return _armoured("CERTIFICATE", certificate)


def _armoured(label: str, der: bytes) -> bytes:
    return f"-----BEGIN {label}-----\n".encode() + encodebytes(der) + f"-----END {label}-----\n".encode()
