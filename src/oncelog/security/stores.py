"""From a store of any kind to PEM, which is what TLS takes here. The store's content is there already."""

from __future__ import annotations

from base64 import encodebytes
from typing import Any

from oncelog.security.java_store import MAGIC, KeyEntry, NoStore, read_java_store, reveal_key
from oncelog.security.kinds import StoreKind
from oncelog.security.values import Certificate, Secret, Store

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
