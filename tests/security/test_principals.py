"""Who a certificate says that somebody is: the text that Kafka's super.users and access control lists have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from harness import java_programs
from harness.certificates import NOW, YEAR
from oncelog.security.principals import ANONYMOUS, principal_of, read_principals, subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
Part = tuple[x509.ObjectIdentifier, str]
CN, ORGANIZATION, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME

SUBJECTS: dict[str, list[Part] | x509.Name] = {
    "CN=broker": [(CN, "broker")],
    "CN=broker-1.example,OU=log,O=Example,L=Ulm,ST=BW,C=DE": [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "BW"),
        (NameOID.LOCALITY_NAME, "Ulm"),
        (ORGANIZATION, "Example"),
        (OU, "log"),
        (CN, "broker-1.example"),
    ],
    "UID=alice,DC=example,DC=org": [
        (NameOID.DOMAIN_COMPONENT, "org"),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.USER_ID, "alice"),
    ],
    "CN=a,STREET=Way 1": [(NameOID.STREET_ADDRESS, "Way 1"), (CN, "a")],
    r"CN=Sue\, Grabbit \+ Rum \"x\" \\ \<\>\;\=\#": [(CN, r'Sue, Grabbit + Rum "x" \ <>;=#')],
    r"CN=\ \ both ends\ \ ": [(CN, "  both ends  ")],
    "CN=Bücher-Größe ☃": [(CN, "Bücher-Größe ☃")],
    "1.2.840.113549.1.9.1=#160c6140622e6578616d706c652e,CN=mail": [
        (CN, "mail"),
        (NameOID.EMAIL_ADDRESS, "a@b.example."),
    ],
    "2.5.4.5=#130434373131,CN=serial": [(CN, "serial"), (NameOID.SERIAL_NUMBER, "4711")],
    "CN=a+OU=b,O=c": x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(ORGANIZATION, "c")]),
            x509.RelativeDistinguishedName([x509.NameAttribute(CN, "a"), x509.NameAttribute(OU, "b")]),
        ]
    ),
    "CN=\\00w\\00i\\00d\\00e,OU=latin é": x509.Name(
        [
            x509.NameAttribute(OU, "latin é", _type=_ASN1Type.T61String),
            x509.NameAttribute(CN, "wide", _type=_ASN1Type.BMPString),
        ]
    ),
}


def certificate(subject: list[Part] | x509.Name) -> x509.Certificate:
    named = subject if isinstance(subject, x509.Name) else x509.Name([x509.NameAttribute(*part) for part in subject])
    builder = x509.CertificateBuilder().subject_name(named).issuer_name(x509.Name([x509.NameAttribute(CN, "issuer")]))
    builder = builder.public_key(KEY.public_key()).serial_number(1)
    return builder.not_valid_before(NOW - YEAR).not_valid_after(NOW + YEAR).sign(KEY, hashes.SHA256())


def der(subject: list[Part] | x509.Name) -> bytes:
    return certificate(subject).public_bytes(Encoding.DER)


@pytest.mark.parametrize("text", SUBJECTS)
def test_subject_is_written_as_rfc_2253_says(text: str) -> None:
    assert subject_of(der(SUBJECTS[text])) == text
    assert principal_of(der(SUBJECTS[text])) == f"User:{text}"


@pytest.mark.jvm
def test_subjects_are_those_that_java_reads(tmp_path: Path) -> None:
    files = []
    for number, subject in enumerate(SUBJECTS.values()):
        files.append(tmp_path / f"{number}.pem")
        files[-1].write_bytes(certificate(subject).public_bytes(Encoding.PEM))
    done = subprocess.run(
        java_programs.command("Subjects"),
        input="".join(f"{file}\n" for file in files),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == list(SUBJECTS)


def test_certificate_without_a_subject_names_nobody() -> None:
    """Else all that have none would be the same."""
    assert principal_of(der([])) == ANONYMOUS
    assert principal_of(None) == ANONYMOUS


@pytest.mark.parametrize("end", range(0, 120, 3))
def test_bytes_that_are_no_certificate_name_nobody(end: int) -> None:
    whole = der([(CN, "broker")])
    assert principal_of(whole[:end]) == ANONYMOUS
    assert principal_of(whole[:end] + bytes(60)) == ANONYMOUS


def test_principals_are_read_as_kafkas_authorizer_reads_them() -> None:
    assert read_principals("") == read_principals(" ; ") == frozenset()
    assert read_principals("User:alice; User:CN=b,OU=log,O=a:b ;") == {"User:alice", "User:CN=b,OU=log,O=a:b"}


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:alice;bob"])
def test_principal_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a string in format principalType:principalName but got "):
        read_principals(text)
