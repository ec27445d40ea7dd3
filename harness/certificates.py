"""An authority and certificates of a test's own, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

NOW = datetime.datetime.now(datetime.UTC)
YEAR = datetime.timedelta(days=365)
LOOPBACK = "127.0.0.1"
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, in memory and as files: the chain, the key, and both in one."""

    certificate: x509.Certificate
    key: Key
    chain_file: Path
    key_file: Path
    both_file: Path


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, directory: Path, name: str, key: Key | None = None) -> None:
        self.directory = directory
        self._key: Key = key or ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        self.certificate = (
            _unsigned(subject, subject, self._key, NOW - YEAR, NOW + YEAR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        host: str = LOOPBACK,
        expires: datetime.timedelta = YEAR,
        key_password: str | None = None,
        key: Key | None = None,
    ) -> Issued:
        """A certificate for `host`, which ends after `expires` from now. Without a `key` it gets a new one, of a strong kind."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        made = NOW - 2 * YEAR if expires < datetime.timedelta(0) else NOW - datetime.timedelta(days=1)
        certificate = (
            _unsigned(_named(name), self.certificate.subject, key, made, NOW + expires)
            .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        hidden = NoEncryption() if key_password is None else BestAvailableEncryption(key_password.encode())
        chain_pem, key_pem = certificate.public_bytes(Encoding.PEM), _key_pem(key, hidden)
        files = [self.directory / f"{name}-{part}.pem" for part in ("chain", "key", "both")]
        for file, content in zip(files, (chain_pem, key_pem, key_pem + chain_pem), strict=True):
            file.write_bytes(content)
        return Issued(certificate, key, *files)


def pkcs12_file(path: Path, password: str, issued: Issued, *authorities: Authority) -> Path:
    """A key store of the type that Java writes by default."""
    hidden = BestAvailableEncryption(password.encode())
    others = [authority.certificate for authority in authorities]
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"own", issued.key, issued.certificate, others, hidden))
    return path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: Key, hidden: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
