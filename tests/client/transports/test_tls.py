"""What a user is told of a certificate and a key that cannot be shown."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from harness.certificates import Authority, Issued
from oncelog.client.transports.tls import tls_context
from oncelog.security.values import Certificate, Secret, Security, Store, StoreKind, Tls

# The object identifiers 1.2.840.113549.1.1.11 and 1.2.840.113549.1.1.5 in DER.
SHA256_WITH_RSA, SHA1_WITH_RSA = (bytes.fromhex("06092a864886f70d0101") + end for end in (b"\x0b", b"\x05"))


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path, "authority")


def refusal(chain: bytes, key: bytes, password: str | None = None) -> str:
    certificate = Certificate(
        Store("the chain", StoreKind.PEM, content=chain),
        Store("the key", StoreKind.PEM, content=key),
        None if password is None else Secret(password),
    )
    with pytest.raises(ValueError, match="the key: ") as raised:
        tls_context(Security(Tls(certificate=certificate)))
    return str(raised.value)


def files(issued: Issued) -> tuple[bytes, bytes]:
    return issued.chain_file.read_bytes(), issued.key_file.read_bytes()


def test_key_of_another_certificate(authority):
    chain, _ = files(authority.issue("one"))
    _, key = files(authority.issue("other"))
    assert refusal(chain, key) == "the key: the key is not that of the certificate"


def test_certificate_that_is_signed_with_a_weak_digest(tmp_path):
    """Nothing signs with SHA-1 any more; and nobody looks at the signature before it is shown."""
    strong, key = files(Authority(tmp_path, "RSA", rsa.generate_private_key(65537, 2048)).issue("old"))
    der = x509.load_pem_x509_certificate(strong).public_bytes(Encoding.DER)
    weak = x509.load_der_x509_certificate(der.replace(SHA256_WITH_RSA, SHA1_WITH_RSA)).public_bytes(Encoding.PEM)
    assert "a digest that OpenSSL takes for too weak" in refusal(weak, key)


def test_small_key(authority):
    small = rsa.generate_private_key(65537, 1024)
    chain, _ = files(authority.issue("small", key=small))
    key = small.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert "one that OpenSSL takes for too small" in refusal(chain, key)


@pytest.mark.parametrize(
    ("password", "told"),
    [(None, "the key is encrypted: ssl.key.password is needed"), ("wrong", "ssl.key.password is wrong")],
)
def test_encrypted_key_without_its_password(authority, password, told):
    chain, key = files(authority.issue("hidden", key_password="right"))
    assert told in refusal(chain, key, password)


def test_file_that_is_no_key(authority):
    chain, _ = files(authority.issue("one"))
    assert refusal(chain, b"nothing of the kind") == "the key: there is no certificate with its key in PEM"
