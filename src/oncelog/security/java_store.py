"""Java's own format of key stores, JKS: certificates that are trusted, and keys with their chains.

Java writes PKCS12 today, whatever a file is called; what older versions wrote is still about. A trusted certificate is there as
it is. A key is hidden by a cipher of Sun's that is made of SHA-1.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha1

from oncelog.security.der import OCTETS, SEQUENCE, NoDer, element

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
